package disrupt

import (
	"slices"
	"time"

	karpv1 "millwright/api/karpenter/v1"
	"millwright/planner"
	"millwright/planner/disrupt/internal/account"
	"millwright/planner/disrupt/internal/order"
)

// drift replaces drifted nodes of dynamic NodePools, in the order of order.SortDrifted. Each goes by a
// command of its own, so that one that fails takes none of the others with it, and all that may go goes in
// one pass.
func (p *pass) drift() []*planner.Decision {
	nodes := p.byPools(p.drifted)
	order.SortDrifted(p.s, nodes)
	nodes, next := inTurn(p, nodes, p.from.Drift)
	for _, n := range nodes {
		if len(p.started.list) >= p.commandsMax {
			return p.started.list
		}
		if p.notWithOthers(n) {
			continue
		}
		o := p.trials.begin([]*planner.StateNode{n})
		if why := p.driftFailure(o); why != nil {
			p.trials.simulation().Revert()
			p.block([]*planner.StateNode{n}, *why)
			p.report.wake(why.Until)
			continue
		}
		if p.start(n, p.commandOf(o, karpv1.DisruptionReasonDrifted, MethodDrift), Explanation{}) {
			p.trials.promise(o)
		} else {
			p.trials.simulation().Revert()
		}
	}
	p.report.Next.Drift = next
	return p.started.list
}

func (p *pass) driftFailure(o *outcome) *Blocked {
	if len(o.unplaced) > 0 {
		return blocked(CauseNoPlace, "%s", o.failure())
	}
	if o.mixed() {
		return &Blocked{Cause: CauseNominated}
	}
	for i := range o.claims {
		if why := p.failing(o.claims[i].NodePool); why != nil {
			return why
		}
	}
	p.prices.Fit(p.started.claims, o.claims)
	if pool := account.LimitExceeded(p.s, slices.Concat(p.started.claims, o.claims)); pool != "" {
		return blocked(CauseLimits, "Replacements would exceed the limits of NodePool %q", pool)
	}
	for _, w := range o.waiting { // it is on its way: wait for it, and do not buy another
		return blocked(CauseNoPlace, "Not all pods would schedule, %s => %s", w.mover.Key(), w.reason)
	}
	return nil
}

// backoff is until when a NodePool's nodes are not replaced; zero if they may be.
func (c *candidates) backoff(pool string) time.Time { return c.s.Ledger.FailingUntil(pool) }

// failing says that a NodePool is left alone after failures of its replacements; nil if it is not.
func (c *candidates) failing(pool string) *Blocked {
	until := c.backoff(pool)
	if !c.s.Now.Before(until) {
		return nil
	}
	b := blocked(CauseBackoff, "Replacements of NodePool %q fail, trying again at %s", pool, until.UTC().Format("15:04:05"))
	b.Until = until
	return b
}
