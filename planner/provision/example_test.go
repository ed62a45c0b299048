package provision_test

import (
	"fmt"

	"millwright/planner/plannertest"
	"millwright/planner/provision"
)

// A pod waits for a place: a round plans a NodeClaim for it. Another round on the same facts decides nothing.
func ExamplePlan() {
	c := plannertest.New(append(plannertest.WithCatalogue(), plannertest.Pool("default"),
		plannertest.Pod("web", plannertest.Requests("cpu", "500m", "memory", "1Gi"), plannertest.Unschedulable()))...)
	decision, round := provision.Plan(c.Snapshot())
	fmt.Println(decision.Kind, "claims:", len(round.Claims), "pods placed:", len(round.Claims[0].Pods), "refused:", round.Refused)

	c.Decide(c.Snapshot(), decision)
	again, _ := provision.Plan(c.Snapshot())
	fmt.Println("nothing changed, nothing to decide:", again == nil)
	// Output:
	// ProvisioningPlanned claims: 1 pods placed: 1 refused: 0
	// nothing changed, nothing to decide: true
}
