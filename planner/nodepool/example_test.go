package nodepool_test

import (
	"fmt"
	"time"

	karpv1 "millwright/api/karpenter/v1"
	"millwright/planner/nodepool"
)

// The strictest budget that applies to the reason counts; percentages round up.
func ExampleAllowed() {
	budgets := []karpv1.Budget{
		{Nodes: "10%"},
		{Nodes: "1", Reasons: []karpv1.DisruptionReason{karpv1.DisruptionReasonDrifted}},
	}
	now := time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)
	fmt.Println(nodepool.Allowed(budgets, karpv1.DisruptionReasonEmpty, 25, now))
	fmt.Println(nodepool.Allowed(budgets, karpv1.DisruptionReasonDrifted, 25, now))
	// Output:
	// 3 <nil>
	// 1 <nil>
}
