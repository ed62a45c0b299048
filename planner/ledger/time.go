package ledger

import (
	"maps"
	"slices"
	"time"

	"millwright/planner/version"
)

// ClockTolerance is how far clocks may be apart: a process whose clock is further off stands down, and what
// is further ahead than this moves nobody's Now (DESIGN §2, "Time has witnesses").
const ClockTolerance = 5 * time.Second

// passTime takes in the time of the newest record. Times rise, but for one case: a record of a clock that was
// far ahead. The next one shows it, and what the Ledger remembers as later than that counts as of then, so
// that it neither waits nor marks for days. The clocks of operators and of the console have no witnesses, and
// say nothing.
func (l *Ledger) passTime(e Entry) {
	unwitnessed := []Kind{KindControlChanged, KindProposalAnswered, KindRolloutResumed, KindBundleTaken, KindSharesObserved}
	if e.Time.IsZero() || slices.Contains(unwitnessed, e.Kind) {
		return
	}
	at := e.Time.UTC()
	l.disbelieveAnswers(at)
	if last := l.lastTime; last.Sub(at) > ClockTolerance {
		l.disbelieve(at)
	}
	l.lastTime = at
}

// disbelieve brings every time that is remembered and later than it could be back to now.
func (l *Ledger) disbelieve(now time.Time) {
	for _, name := range l.claims.Keys() {
		if c := l.Claim(name); c.OpenedAt.After(now) || c.RegisteredAt.After(now) {
			c = l.editClaim(name)
			c.OpenedAt, c.RegisteredAt = earlier(c.OpenedAt, now), earlier(c.RegisteredAt, now)
		}
	}
	for _, id := range l.commands.Keys() {
		c := edit(l.owner, &l.commands, id)
		c.At = earlier(c.At, now)
	}
	for _, id := range l.proposals.Keys() {
		l.proposals.Set(l.owner, id, l.Proposal(id).asOf(now))
	}
	for pool := range l.evictions {
		moved := slices.Clone(l.evictions[pool])
		for i := range moved {
			moved[i].At = earlier(moved[i].At, now)
		}
		l.evictions = with(l.evictions, pool, moved)
	}
	l.disbelieveRollouts(now)
	l.disbelieveReturns(now)
	l.disbelieveDrainOuts(now)
	for _, node := range l.drains.Keys() {
		d := edit(l.owner, &l.drains, node)
		d.At = earlier(d.At, now)
		d.Surges = maps.Clone(d.Surges)
		for uid, surge := range d.Surges {
			surge.At, surge.Until = earlier(surge.At, now), earlier(surge.Until, now.Add(SurgeWithinMax))
			d.Surges[uid] = surge
		}
	}
	for _, key := range l.offeringKeys() {
		u, _ := l.offerings.Get(key)
		u.Until = earlier(u.Until, now.Add(l.backoff.Max))
		l.offerings.Set(l.owner, key, u)
	}
	for _, id := range version.Keys(&l.subnets) {
		u, _ := l.subnets.Get(id)
		u.Until = earlier(u.Until, now.Add(l.backoff.Max))
		l.subnets.Set(l.owner, id, u)
	}
	for _, uid := range version.Keys(&l.verdicts) {
		l.verdicts.Set(l.owner, uid, l.Verdict(uid).asOf(now))
	}
	for _, id := range version.Keys(&l.reservations) {
		l.reservations.Set(l.owner, id, l.reservation(id).asOf(now))
	}
	l.memory, l.drifts, l.controlAt = l.memory.AsOf(now), l.drifts.AsOf(now), earlier(l.controlAt, now)
}

// asOf is the reservation as it can be at most at a time.
func (r reservation) asOf(now time.Time) reservation {
	r.Full, r.Changes = earlier(r.Full, now), slices.Clone(r.Changes)
	for i := range r.Changes {
		r.Changes[i].At = earlier(r.Changes[i].At, now)
	}
	return r
}

// asOf is the verdict as it can be at most at a time.
func (v *Verdict) asOf(now time.Time) *Verdict {
	known := *v
	known.Since = earlier(v.Since, now)
	known.Excluded = nil
	for _, x := range v.Excluded {
		known.Excluded = append(known.Excluded, ExcludedNode{x.Node, earlier(x.Until, now.Add(ExclusionTime))})
	}
	return &known
}

func earlier(a, b time.Time) time.Time {
	if b.Before(a) {
		return b
	}
	return a
}
