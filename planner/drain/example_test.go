package drain_test

import (
	"fmt"

	"millwright/planner/drain"
	"millwright/planner/ledger"
	"millwright/planner/plannertest"
)

// Pods of a tier are evicted together; those of DaemonSets come later.
func ExamplePlan() {
	c := plannertest.New(plannertest.Pool("default"))
	c.AddNode("n", "default")
	c.See(plannertest.Pod("web", plannertest.On("n")), plannertest.DaemonPod("agent", "n"))
	c.Record(ledger.KindDrainStarted, &ledger.DrainStarted{Node: "n", Reason: "deleted"})
	step := drain.Plan(c.Snapshot(), "n")
	for _, p := range step.Evict {
		fmt.Println("tier", step.Tier, "evicts", p.Name)
	}
	fmt.Println("done:", step.Done())
	// Output:
	// tier 1 evicts web
	// done: false
}
