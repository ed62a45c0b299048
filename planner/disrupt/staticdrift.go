package disrupt

import (
	"slices"

	karpv1 "millwright/api/karpenter/v1"
	"millwright/planner"
	"millwright/planner/disrupt/internal/account"
	"millwright/planner/disrupt/internal/order"
	"millwright/planner/ledger"
	"millwright/planner/provision"
)

// staticDrift replaces the drifted nodes of static NodePools one for one, each by a claim as the template
// says now (reference: scheduling §14, disruption §5). Their pods are not simulated: whoever sets replicas
// says how many nodes there are.
func (p *pass) staticDrift() []*planner.Decision {
	for _, pool := range p.s.World.NodePools() {
		nodes := slices.SortedFunc(slices.Values(p.static[pool.Name]), order.ByDrift)
		for i, n := range nodes {
			if len(p.started.list) >= p.commandsMax {
				return p.started.list
			}
			if p.notWithOthers(n) {
				continue
			}
			started, full := p.staticCommand(pool, n)
			if full {
				p.block(nodes[i:], *blocked(CauseNodeLimit, "NodePool %q has no room for a replacement within its node limit", pool.Name))
			}
			if started == nil {
				break
			}
			p.start(n, started, Explanation{})
		}
	}
	return p.started.list
}

// staticCommand replaces a node of a static NodePool; nil if there cannot be one more node now, full if its
// limit is why.
func (p *pass) staticCommand(pool *karpv1.NodePool, n *planner.StateNode) (started *ledger.CommandStarted, full bool) {
	replacement, full := provision.StaticReplacement(p.s, pool, int64(len(p.started.nodes[pool.Name])))
	if replacement == nil {
		return nil, full
	}
	return account.WithPrices(p.s, &ledger.CommandStarted{Reason: karpv1.DisruptionReasonDrifted, Method: MethodStaticDrift,
		Candidates: []ledger.Candidate{p.candidate(n)}, Replacements: []ledger.PlannedClaim{*replacement}}), false
}
