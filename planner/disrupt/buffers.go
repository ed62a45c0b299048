package disrupt

import (
	"slices"

	karpv1 "millwright/api/karpenter/v1"
	"millwright/planner"
	"millwright/planner/disrupt/internal/account"
	"millwright/planner/options"
)

// Virtual pods of CapacityBuffers are protected in every method (reference: scheduling §15): the node that
// has room for some goes only if there is room for them elsewhere, or on a replacement. They run nowhere, so
// where they are is what the provisioning planner says, and to move them evicts nobody.

// consolidatedByPods: the node is no empty one to consolidation, for it has room of a buffer, and its
// NodePool is not for empty nodes only.
func (p *pass) consolidatedByPods(n *planner.StateNode) bool {
	if len(reschedulable(n)) > 0 {
		return true
	}
	pool := p.s.World.NodePool(n.NodePool)
	return pool != nil && pool.Spec.Disruption.ConsolidationPolicy != karpv1.ConsolidationPolicyWhenEmpty && len(p.trials.buffered(n)) > 0
}

func hasBufferPods(n *planner.StateNode) *Blocked {
	return unconsolidatable(CauseBuffer, "Node %q has buffer pods", n.Name)
}

// heldTrialsMax bounds the empty nodes with room of a buffer that one pass simulates.
const heldTrialsMax = 50

// spareable are the empty nodes that can go together: those with room of a buffer, or of pods that are
// about to come, only as far as there is room elsewhere, and no two whose DaemonSet pods wait for the same
// disruption.
func (p *pass) spareable(nodes []*planner.StateNode) []*planner.StateNode {
	var taken, held []*planner.StateNode
	if len(nodes) == 0 {
		return nil
	}
	awaiting, hinted := p.trials.awaiting()
	counts, late := account.Going(p.s), p.s.Options.Revision >= options.Revision5
	for _, n := range nodes {
		holds, why := len(p.trials.buffered(n)) > 0 || awaiting[n.Name], p.pdbSum(counts, n)
		if why != nil && p.s.Options.Revision >= options.Revision1 {
			p.block([]*planner.StateNode{n}, *why)
			continue
		}
		if why == nil && !(holds && late) { // one that holds room may have to stay
			counts.Add(p.s, n)
		}
		if holds {
			held = append(held, n)
		} else {
			taken = append(taken, n)
		}
	}
	for i, n := range held {
		why := hasBufferPods(n)
		if awaiting[n.Name] {
			why = blocked(CauseNominated, "Node is nominated for a pending pod")
		}
		if sum := p.pdbSum(counts, n); sum != nil && late {
			why = sum
		} else if i < heldTrialsMax && len(taken) < candidatesMax && !hinted[n.Name] {
			more := append(slices.Clip(taken), n)
			if o := p.trials.without(more, nil, false); o.failure() == "" && len(o.claims) == 0 && !o.mixed() {
				taken = more
				counts.Add(p.s, n)
				continue
			}
		}
		p.block([]*planner.StateNode{n}, *why)
	}
	return taken
}
