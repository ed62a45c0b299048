package claim

import (
	"fmt"
	"maps"
	"slices"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	karpv1 "millwright/api/karpenter/v1"
	"millwright/planner/condition"
	"millwright/planner/resource"
)

// shareLeast is the share of the expected capacity, in per mille, that a Node must have of each requested
// resource (reference: lifecycle §9).
const shareLeast = 900

// consistent says, once the claim is initialized, whether its Node has what was expected of it. It only
// reports.
func consistent(c *condition.List, o *karpv1.NodeClaim, nodes []*corev1.Node) {
	const kind = karpv1.ConditionTypeConsistentStateFound
	switch {
	case !condition.IsTrue(c.Conditions, karpv1.ConditionTypeInitialized) || len(nodes) != 1:
	case len(Shortfalls(o, nodes[0])) > 0:
		c.Set(kind, metav1.ConditionFalse, "ConsistencyCheckFailed", "Consistency Check Failed")
	default:
		c.True(kind)
	}
}

// Shortfalls are the requested resources of which the Node has less than nine tenths of what the claim
// expects, one sentence each, by name.
func Shortfalls(o *karpv1.NodeClaim, n *corev1.Node) []string {
	var out []string
	for _, name := range slices.Sorted(maps.Keys(o.Spec.Resources.Requests)) {
		expected, found := o.Status.Capacity[name], n.Status.Capacity[name]
		want, have := resource.AmountOf(name, expected), resource.AmountOf(name, found)
		if want <= 0 || have >= want {
			continue
		}
		if want > 1<<50 { // keep the product below within bounds
			want, have = want>>10, have>>10
		}
		share := 1000 * have / want
		if share < shareLeast {
			out = append(out, fmt.Sprintf("expected %s of resource %s, but found %s (%d.%d%% of expected)",
				expected.String(), name, found.String(), share/10, share%10))
		}
	}
	return out
}
