package disrupt

import (
	"cmp"
	"fmt"
	"slices"

	karpv1 "millwright/api/karpenter/v1"
	"millwright/planner"
	"millwright/planner/disrupt/internal/account"
	"millwright/planner/disrupt/internal/order"
	"millwright/planner/disrupt/quiet"
	"millwright/planner/ledger"
	"millwright/planner/options"
)

// emptiness removes nodes without pods that would need another place: those of the first NodePool that has
// any.
func (p *pass) emptiness() *planner.Decision {
	for _, pool := range p.s.World.NodePools() {
		nodes := p.emptyNodes(pool.Name)
		if len(nodes) == 0 {
			continue
		}
		started := p.emptyCommand(nodes)
		x := p.explain(started, Explanation{ConsolidateAfter: quiet.After(pool).String()})
		return p.decision(started, x)
	}
	return nil
}

// emptyNodes are those of a NodePool that go together, by name: of the nodes that can go as many as its
// budgets allow, the dearest first (reference: disruption §3).
func (p *pass) emptyNodes(pool string) []*planner.StateNode {
	nodes := p.empty[pool]
	if p.s.Options.Revision < options.Revision1 {
		nodes = order.Named(p.spareable(nodes))
		return nodes[:min(len(nodes), candidatesMax)]
	}
	dearest := func(a, b *planner.StateNode) int {
		return cmp.Or(cmp.Compare(p.prices.Of(b), p.prices.Of(a)), order.ByName(a, b))
	}
	nodes = slices.SortedFunc(slices.Values(p.spareable(slices.SortedFunc(slices.Values(nodes), dearest))), dearest)
	taken, kept := p.budgets[budgetKey{pool, karpv1.DisruptionReasonEmpty}].within(nodes[:min(len(nodes), candidatesMax)])
	unblock(p, taken)
	p.block(kept, Blocked{Cause: CauseBudget, Reason: karpv1.DisruptionReasonEmpty})
	return order.Named(taken)
}

func (p *pass) emptyCommand(nodes []*planner.StateNode) *ledger.CommandStarted {
	started := &ledger.CommandStarted{Reason: karpv1.DisruptionReasonEmpty, Method: MethodEmptiness}
	for _, n := range nodes {
		started.Candidates = append(started.Candidates, p.candidate(n))
	}
	return account.WithPrices(p.s, started)
}

// emptied checks what emptiness asks of an empty node beyond eligibility (reference: disruption §1, §2).
func (c *candidates) emptied(n *planner.StateNode, r *NodeReport) *Blocked {
	pool := c.s.World.NodePool(n.NodePool)
	if b := enabled(pool); b != nil {
		return b
	}
	return c.quiet(pool, n, r)
}

// enabled says whether a NodePool's nodes may be consolidated at all.
func enabled(pool *karpv1.NodePool) *Blocked {
	switch {
	case pool.Spec.Replicas != nil:
		return &Blocked{Cause: CauseStatic}
	case pool.Spec.Disruption.ConsolidateAfter.IsNever():
		return unconsolidatable(CauseDisabled, "NodePool %q has consolidation disabled", pool.Name)
	}
	return nil
}

// quiet demands that nothing has happened on the node for consolidateAfter.
func (c *candidates) quiet(pool *karpv1.NodePool, n *planner.StateNode, r *NodeReport) *Blocked {
	since, ok := quiet.Since(c.s.World, n.Claim, n.Name)
	if !ok {
		return &Blocked{Cause: CauseNotQuiet}
	}
	r.QuietSince, r.ConsolidatableAt = since, since.Add(quiet.After(pool))
	if c.s.Now.Before(r.ConsolidatableAt) {
		return &Blocked{Cause: CauseNotQuiet}
	}
	return nil
}

func unconsolidatable(cause Cause, format string, args ...any) *Blocked {
	return &Blocked{Cause: cause, Message: fmt.Sprintf(format, args...), EventReason: EventUnconsolidatable}
}
