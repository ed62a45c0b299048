package disrupt

import (
	"cmp"
	"fmt"
	"slices"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	karpv1 "millwright/api/karpenter/v1"
	"millwright/planner"
	"millwright/planner/ledger"
	"millwright/planner/provision"
)

// MethodStaticDrift is the method that replaces drifted nodes of static NodePools.
const MethodStaticDrift = "static-drift"

// staticDrift replaces the drifted nodes of static NodePools one for one, each by a claim as the template says now (reference:
// scheduling §14, disruption §5). Their pods are not simulated: whoever sets replicas says how many nodes there are.
type staticDrift struct{ *candidates }

// concerns reports that a node is of a static NodePool and has drifted.
func (d staticDrift) concerns(n *planner.StateNode) bool {
	pool := d.s.World.NodePool(n.NodePool)
	return pool != nil && pool.Spec.Replicas != nil && driftOf(n) != nil
}

// driftOf is the condition Drifted of a node's claim if it is True; nil otherwise.
func driftOf(n *planner.StateNode) *metav1.Condition {
	if n.Claim == nil {
		return nil
	}
	if c := planner.Condition(n.Claim.Status.Conditions, karpv1.ConditionTypeDrifted); c != nil && c.Status == "True" {
		return c
	}
	return nil
}

// examine decides whether a drifted node may be replaced.
func (d staticDrift) examine(n *planner.StateNode) NodeReport {
	r := NodeReport{NodePool: n.NodePool, Claim: n.ClaimName(), Drifted: driftOf(n).Reason, Blocked: d.eventual(n, "")}
	if n.Node != nil {
		r.Node = n.Name
	}
	return r
}

// command replaces the first of the drifted nodes that may be replaced, by the time at which they drifted, then by name; nil if the
// pool has no room for the replacement.
func (d staticDrift) command(pool *karpv1.NodePool, nodes []*planner.StateNode, budget PoolReport, r *Report) *planner.Decision {
	replacement, full := provision.StaticReplacement(d.s, pool)
	if replacement == nil {
		if full {
			r.block(nodes, *blocked(CauseNodeLimit, "NodePool %q has no room for a replacement within its node limit", pool.Name))
		}
		return nil
	}
	first := slices.MinFunc(nodes, func(a, b *planner.StateNode) int {
		return cmp.Or(driftOf(a).LastTransitionTime.Compare(driftOf(b).LastTransitionTime.Time), cmp.Compare(a.Name, b.Name))
	})
	c := candidate(d.s, first)
	for _, p := range reschedulable(first) {
		c.Pods = append(c.Pods, ledger.PodRef{UID: p.UID, Namespace: p.Namespace, Name: p.Name})
	}
	started := &ledger.CommandStarted{
		Reason: karpv1.DisruptionReasonDrifted, Method: MethodStaticDrift, Candidates: []ledger.Candidate{c}, Replacements: []ledger.PlannedClaim{*replacement},
	}
	return d.decision(pool, started, d.explain(pool, started, budget, r))
}

// invalid returns why a running command can no longer go on with a node; "" if it can.
func (d staticDrift) invalid(n *planner.StateNode, own string) string {
	if b := d.eventual(n, own); b != nil {
		return fmt.Sprintf("node %s: %s", n.Name, lowerFirst(b.Message))
	}
	if !d.concerns(n) {
		return fmt.Sprintf("node %s: has not drifted any more", n.Name)
	}
	return ""
}
