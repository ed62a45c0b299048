package disrupt

import (
	corev1 "k8s.io/api/core/v1"

	karpv1 "millwright/api/karpenter/v1"
	"millwright/planner"
	"millwright/planner/disrupt/internal/held"
	"millwright/planner/disrupt/internal/policy"
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
	if b := c.quiet(pool, n, r); b != nil {
		return b
	}
	return c.drainsOut(n)
}

// drainsOut keeps a node with nothing but pods of Jobs and protected ones, where a policy lets such nodes run
// empty by themselves.
func (c *candidates) drainsOut(n *planner.StateNode) *Blocked {
	rule := policy.DrainOutOf(c.policies[n.NodePool])
	if rule == nil {
		return nil
	}
	pods, _ := held.By(c.s, n)
	if len(pods) == 0 {
		return nil
	}
	return unconsolidatable(CauseDrainsOut, "DisruptionPolicy %q lets the node run empty by itself (Pod=%s/%s)", rule.Policy, pods[0].Namespace, pods[0].Name)
}

// Examiner says of single nodes what keeps consolidation from them.
type Examiner struct{ c *candidates }

// NewExaminer of a Snapshot.
func NewExaminer(s *planner.Snapshot) Examiner { return Examiner{newCandidates(s)} }

// Consolidatable says what keeps consolidation from a node with pods, whoever they are; nil if nothing does.
func (e Examiner) Consolidatable(n *planner.StateNode) *Blocked {
	if b := e.c.always(n, ""); b != nil {
		return b
	}
	return e.c.consolidatable(n, &NodeReport{})
}
