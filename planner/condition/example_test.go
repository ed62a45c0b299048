package condition_test

import (
	"fmt"
	"time"

	"millwright/planner/condition"
)

// The root condition follows from those it depends on; what nobody has set yet is Unknown.
func ExampleList() {
	made := time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)
	l := &condition.List{Generation: 2, Created: made, Now: made.Add(time.Minute), Root: "Ready", Dependents: []string{"Launched", "Registered"}}
	l.True("Launched")
	for _, c := range l.Finish() {
		fmt.Println(c.Type, c.Status, c.Reason)
	}
	// Output:
	// Registered Unknown AwaitingReconciliation
	// Launched True Launched
	// Ready Unknown ReconcilingDependents
}
