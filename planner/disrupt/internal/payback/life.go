package payback

import (
	"fmt"
	"time"

	"millwright/planner"
	"millwright/planner/disrupt/internal/policy"
)

// What bounds how long a saving counts for a DisruptionPolicy's payBack.
const (
	byHorizon = "horizon"
	byExpiry  = "expireAfter"
	byHistory = "history"
	byDrift   = "drift"
)

// Trade is what is saved for what: in micro USD per hour, Before as the price of what goes; Weight is what
// the evictions cost in grains of EvictionCostUnit.
type Trade struct{ Saved, Before, Evictions, Weight int64 }

// Shortfall says in what way a policy finds that too little is saved on nodes of a NodePool, "" if it does
// not, and the first moment at which time alone may change that; zero if it can't.
func (r *Rule) Shortfall(p *policy.Policy, nodePool string, t Trade) (text string, until time.Time) {
	text, needed := p.Shortfall(t.Saved, t.Before, t.Evictions, t.Weight, r.lifeFor(p, nodePool))
	if text == "" || needed == 0 || !r.s.Options.PayBackHistory {
		return text, until
	}
	return text, r.lastsAt(p, nodePool, needed)
}

// lifeFor is for how long a saving on a NodePool counts for a policy's payBack: its horizon, at most the
// NodePool's expireAfter. With the option PayBackHistory it is at most
//
//   - the time for which the NodePool has bought no node for pods that had no place, by the rule of
//     --eviction-cost: what is freed is needed again before long where nodes are bought all the time;
//   - the time until drift is due, by the median of the times between its last roll-outs: then the pods are
//     evicted anyway. Once it is overdue, the time since then: nobody changes the NodePool any more.
//
// Both are in whole minutes, and at least lifeLeast, or as much of it as horizon and expireAfter allow.
//
// Example. Roll-outs began on the 1st, the 6th and the 11th at noon, so the next one is due on the 16th. On
// the 14th a saving counts for a day, as the horizon has it; at eleven on the 16th for an hour; at noon for
// five minutes; and at one, if nothing has drifted by then, for an hour again.
func (r *Rule) lifeFor(p *policy.Policy, nodePool string) policy.Life {
	most, expires := p.LifeMost(r.s.World.NodePool(nodePool))
	life := policy.Life{Length: most}
	if !p.AsksForPayBack() || !r.s.Options.PayBackHistory {
		return life
	}
	if life.Bound = byHorizon; expires {
		life.Bound = byExpiry
	}
	least := min(lifeLeast, most)
	if d := max(r.sincePurchase(nodePool).Truncate(time.Minute), least); d < life.Length {
		life = policy.Life{Length: d, Bound: r.historyText(nodePool)}
	}
	if due, median, ok := r.driftDue(nodePool); ok {
		if d := max(r.s.Now.Sub(due).Abs().Truncate(time.Minute), least); d < life.Length {
			life = policy.Life{Length: d, Bound: fmt.Sprintf("%s, whose roll-outs are %s apart, due at %s", byDrift, median.Truncate(time.Minute), policy.Clock(due))}
		}
	}
	return life
}

// historyText says what the NodePool has bought.
func (r *Rule) historyText(nodePool string) string {
	b := r.purchasesOf(nodePool)
	if b.times > purchasesFree {
		return fmt.Sprintf("%s: the NodePool has bought nodes %d times within %s, last at %s", byHistory, b.times, boughtIn, policy.Clock(b.last))
	}
	return fmt.Sprintf("%s: the NodePool has bought a node at %s", byHistory, policy.Clock(b.last))
}

// driftDue is when the drift of a NodePool's nodes is due by the median of the times between its roll-outs;
// false while there were too few.
func (r *Rule) driftDue(nodePool string) (due time.Time, median time.Duration, ok bool) {
	median, last, ok := r.s.Ledger.Drifts().Interval(nodePool)
	return last.Add(median), median, ok
}

// lastsAt is the first moment at which a saving on a NodePool may count for as long as is needed, in whole
// minutes; zero if it is not ahead.
func (r *Rule) lastsAt(p *policy.Policy, nodePool string, needed time.Duration) time.Time {
	if most, _ := p.LifeMost(r.s.World.NodePool(nodePool)); needed > most {
		return time.Time{}
	}
	at := r.s.Now
	if r.sincePurchase(nodePool) < needed {
		b := r.purchasesOf(nodePool)
		if at = b.last.Add(needed); b.times > purchasesFree {
			at = earlier(at, b.first.Add(boughtIn))
		}
	}
	if due, _, ok := r.driftDue(nodePool); ok && at.After(due.Add(-needed)) {
		at = planner.Latest(at, due.Add(needed))
	}
	if !at.After(r.s.Now) {
		return time.Time{}
	}
	return at.UTC()
}
