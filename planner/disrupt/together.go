package disrupt

import (
	"slices"

	karpv1 "millwright/api/karpenter/v1"
	"millwright/planner"
	"millwright/planner/disrupt/internal/account"
	"millwright/planner/disrupt/internal/policy"
	"millwright/planner/ledger"
)

// startedTogether are the commands that one pass has come to so far, with all that the next ones have to
// count besides what the Snapshot shows. Each takes one node.
type startedTogether struct {
	list   []*planner.Decision
	claims []ledger.PlannedClaim
	// nodes that go, by NodePool. Those that only were proposed go later, if ever.
	nodes map[string][]*planner.StateNode
	// evictions by PodDisruptionBudget, those of nodes that go already included; nil until asked for.
	evictions account.Evictions
}

// notWithOthers says of a drifted node why it cannot go beside what goes already and what this pass has
// started; false if it can.
func (p *pass) notWithOthers(n *planner.StateNode) bool {
	why := p.withOthers(n, karpv1.DisruptionReasonDrifted)
	if why == nil {
		return false
	}
	p.block([]*planner.StateNode{n}, *why)
	p.report.wake(why.Until)
	return true
}

// withOthers says why a node cannot go for a reason beside what goes already and what this pass has started;
// nil if it can.
func (p *pass) withOthers(n *planner.StateNode, reason karpv1.DisruptionReason) *Blocked {
	why := p.failing(n.NodePool)
	if why == nil && p.isNominated(n) { // by a command of this pass
		why = blocked(CauseNominated, "Node is nominated for a pending pod")
	}
	if why == nil {
		why = budgetLeft(p, n, reason)
	}
	if why == nil && (reason != karpv1.DisruptionReasonDrifted || n.Claim.Spec.TerminationGracePeriod == nil) {
		why = p.pdbSum(p.evictionsBy(), n)
	}
	if why == nil {
		why = tooManyBeside(p, n)
	}
	if why == nil && reason == karpv1.DisruptionReasonDrifted {
		why = waveBlock(p, n)
	}
	return why
}

// budgetLeft counts a node against the budgets of its NodePool.
func budgetLeft(p *pass, n *planner.StateNode, reason karpv1.DisruptionReason) *Blocked {
	with := append(slices.Clone(p.started.nodes[n.NodePool]), n)
	if _, kept := p.budgets[budgetKey{n.NodePool, reason}].within(with); len(kept) > 0 {
		return &Blocked{Cause: CauseBudget}
	}
	return nil
}

// tooManyBeside keeps a node whose pods are too many for the hour with those of the nodes before it.
func tooManyBeside(p *pass, n *planner.StateNode) *Blocked {
	if len(p.policies[n.NodePool]) == 0 {
		return nil
	}
	with := append(slices.Clone(p.started.nodes[n.NodePool]), n)
	kept, why := policy.TooMany(p.s, p.policies, with, policy.PodsOn)
	if slices.Contains(kept, n) {
		return blocked(CauseRate, "%s", why)
	}
	return nil
}

func (p *pass) evictionsBy() account.Evictions {
	if p.started.evictions == nil {
		p.started.evictions = account.Going(p.s)
	}
	return p.started.evictions
}

// start adds the command that takes a node, and reports whether it takes it: one that has to be approved
// takes nothing yet.
func (p *pass) start(n *planner.StateNode, started *ledger.CommandStarted, x Explanation) (taken bool) {
	started.Nth = len(p.started.list)
	d := p.decision(started, p.explain(started, x))
	p.started.list = append(p.started.list, d)
	if d.Kind == ledger.KindCommandProposed {
		return false
	}
	if p.started.nodes == nil {
		p.started.nodes = map[string][]*planner.StateNode{}
	}
	p.started.nodes[n.NodePool] = append(p.started.nodes[n.NodePool], n)
	p.started.claims = append(p.started.claims, started.Replacements...)
	p.evictionsBy().Add(p.s, n)
	for _, t := range started.Placements {
		p.nominated[t.Node+"\x00"] = true
	}
	return true
}

// After makes a decision expect what decisions of the same pass before it have advanced, each to the sequence
// of its record.
func After(d *planner.Decision, advanced map[string]uint64) *planner.Decision {
	next := *d
	next.Expects = slices.Clone(d.Expects)
	for i := range next.Expects {
		if seq, ok := advanced[next.Expects[i].Aggregate]; ok {
			next.Expects[i].Seq = seq
		}
	}
	return &next
}
