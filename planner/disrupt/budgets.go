package disrupt

import (
	"slices"

	karpv1 "millwright/api/karpenter/v1"
	"millwright/planner"
	"millwright/planner/disrupt/internal/account"
	"millwright/planner/nodepool"
)

// Reasons in the order reports list them.
var Reasons = []karpv1.DisruptionReason{
	karpv1.DisruptionReasonDrifted, karpv1.DisruptionReasonEmpty, karpv1.DisruptionReasonUnderutilized,
}

// Budgets returns what the budgets of a NodePool allow at the Snapshot's Now, for one reason. Nodes that are
// going for whatever cause, or not ready, use them up.
func Budgets(s *planner.Snapshot, pool *karpv1.NodePool, reason karpv1.DisruptionReason) PoolReport {
	r := PoolReport{NodePool: pool.Name, Reason: reason}
	r.Nodes, r.Consuming, r.Going = account.Consuming(s, pool.Name)
	allowed, err := nodepool.Allowed(pool.Spec.Disruption.Budgets, reason, r.Nodes, s.Now)
	if err != nil {
		r.Invalid = err.Error()
	}
	r.Allowed, r.Unlimited = allowed, allowed == nodepool.Unlimited
	r.Remaining = max(0, allowed-r.Consuming)
	return r
}

// remainingUnready is how many more nodes may go that are not ready: those use the budget up already, so that
// only nodes that go count against them. Else a NodePool whose drifted node is not ready could never replace
// it under a budget of one node.
func (p PoolReport) remainingUnready() int { return max(0, p.Allowed-p.Going) }

// within splits nodes, in their order, into those that a budget lets go together and the others.
func (p PoolReport) within(nodes []*planner.StateNode) (taken, kept []*planner.StateNode) {
	ready := p.Remaining
	for _, n := range nodes {
		switch {
		case len(taken) == p.remainingUnready(), n.Ready() && ready == 0:
			kept = append(kept, n)
			continue
		case n.Ready():
			ready--
		}
		taken = append(taken, n)
	}
	return taken, kept
}

// allowsRest reports that a budget allows a command that runs already and has these nodes left.
func (p PoolReport) allowsRest(rest []*planner.StateNode) bool {
	if p.Consuming <= p.Allowed {
		return true
	}
	unready := !slices.ContainsFunc(rest, func(n *planner.StateNode) bool { return n.NodePool == p.NodePool && n.Ready() })
	return unready && (p.Reason == karpv1.DisruptionReasonDrifted || p.Reason == karpv1.DisruptionReasonEmpty) && p.Going <= p.Allowed
}
