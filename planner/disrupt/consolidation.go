package disrupt

import (
	corev1 "k8s.io/api/core/v1"

	karpv1 "millwright/api/karpenter/v1"
	"millwright/planner"
)

// consolidatable checks what consolidation requires of a node with pods beyond eligibility (reference:
// disruption §2).
func (c *candidates) consolidatable(n *planner.StateNode, r *NodeReport) *Blocked {
	pool := c.s.World.NodePool(n.NodePool)
	if pool.Spec.Replicas != nil {
		return &Blocked{Cause: CauseStatic}
	}
	if c.prices.TypeOf(n) == nil {
		return unconsolidatable(CauseUnknownType, "Instance Type %q not found", n.InstanceTypeName())
	}
	for _, label := range []string{karpv1.CapacityTypeLabelKey, corev1.LabelTopologyZone} {
		if n.Labels[label] == "" {
			return unconsolidatable(CauseMissingLabel, "Node does not have label %q", label)
		}
	}
	if b := enabled(pool); b != nil {
		return b
	}
	if pool.Spec.Disruption.ConsolidationPolicy == karpv1.ConsolidationPolicyWhenEmpty {
		return unconsolidatable(CauseEmptyOnly, "NodePool %q has consolidation policy WhenEmpty, but node is not empty", pool.Name)
	}
	return c.quiet(pool, n, r)
}
