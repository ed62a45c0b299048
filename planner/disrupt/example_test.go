package disrupt_test

import (
	"fmt"
	"time"

	"millwright/planner/disrupt"
	"millwright/planner/ledger"
	"millwright/planner/plannertest"
)

// A node without pods has been quiet for an hour: one command takes it.
func ExamplePlan() {
	c := plannertest.New(plannertest.Pool("default"))
	c.AddNode("n", "default")
	c.Advance(time.Hour)
	decision, _ := disrupt.Plan(c.Snapshot())
	started := decision.Payload.(*ledger.CommandStarted)
	fmt.Println(decision.Kind, started.Reason, started.Candidates[0].Node, "replacements:", len(started.Replacements))
	// Output: CommandStarted Empty n replacements: 0
}
