// Package patience has consolidation wait until waiting has cost as much as the evictions would. What is
// freed when a batch of jobs ends, or a Deployment is scaled down for some minutes, is often needed again
// soon: who moves pods at once moves them for nothing, and buys the node again. Nobody knows beforehand how
// long a saving will last, but who waits until the waiting has come to the price of the moves never pays more
// than twice what the best would have paid who knew.
//
// Worked example, 0.001 USD per eviction. A command would move 12 pods and save 0.24 USD per hour: its
// evictions count as 0.012 USD, which waiting costs in 3 minutes. If the load comes back before, nothing was
// moved. Else the command begins, and a round with it: whatever else is found goes at once, until searches
// find nothing, for it has been there to be had for as long. A command that moves 12 pods and saves 2.40 USD
// per hour waits for 18 seconds.
//
// What is waited for is what the searches find, whatever nodes they name; between two searches the lesser of
// their savings counts. It is kept in memory alone: the next leader begins to count anew, and what waits is
// on no record, so decisions and their replay do not depend on it.
package patience

import (
	"time"

	karpv1 "millwright/api/karpenter/v1"
	"millwright/planner"
	"millwright/planner/disrupt/internal/policy"
	"millwright/planner/ledger"
)

const (
	// gapMax is the longest time between two searches that counts; clocks may jump.
	gapMax = 10 * time.Minute
	// roundMax bounds a round, lest searches that always find something never wait again.
	roundMax = 10 * time.Minute
	// waitMax is the longest time that Wait names; the search after it may name another.
	waitMax = 24 * time.Hour
	// forgottenAfter is for how long nothing must have been found before a round is over, or the count begins
	// anew: a busy cluster is searched every second, and often there is nothing for a moment, as while a pod
	// is being bound.
	forgottenAfter = 10 * time.Second
)

// Patience of one leader. The zero value waits for nothing.
type Patience struct {
	// Cost of an eviction, in micro USD; 0: nothing waits.
	Cost int64
	// waited is what waiting has cost so far, in micro USD, rate what the search at that time would have
	// saved, in micro USD per hour.
	waited, rate int64
	at           time.Time
	// nothing is since when searches find nothing; zero: the last one did.
	nothing time.Time
	// round is when the present one began; zero: there is none.
	round time.Time
}

// Wait is told of each search for consolidation what it came to, and says for how long its command is to wait
// at least; 0: what was decided may begin. nodeCost is what a node costs by itself, in micro USD per hour.
// Only commands that evict pods to save something wait.
func (p *Patience) Wait(now time.Time, decided []*planner.Decision, nodeCost int64) time.Duration {
	if !p.nothing.IsZero() && now.Sub(p.nothing).Abs() >= forgottenAfter {
		*p = Patience{Cost: p.Cost, nothing: p.nothing}
	}
	if len(decided) == 0 {
		if p.rate = 0; p.nothing.IsZero() {
			p.nothing = now
		}
		return 0
	}
	p.nothing = time.Time{}
	saved, evictions := consolidation(decided[0], nodeCost)
	if p.Cost == 0 || evictions == 0 || saved <= 0 {
		return 0
	}
	if now.Sub(p.round).Abs() < roundMax && !p.round.IsZero() {
		return 0
	}
	if !p.at.IsZero() {
		p.waited += costs(min(saved, p.rate), min(max(now.Sub(p.at), 0), gapMax))
	}
	p.at, p.rate = now, saved
	if missing := p.Cost*evictions - p.waited; missing > 0 {
		return lasts(missing, saved)
	}
	*p = Patience{Cost: p.Cost, round: now}
	return 0
}

// consolidation is what a decision saves per hour, in micro USD, and how many pods it evicts; 0 for decisions
// that are not to consolidate.
func consolidation(d *planner.Decision, nodeCost int64) (saved, evictions int64) {
	c, ok := d.Payload.(*ledger.CommandStarted)
	if !ok || c.Reason != karpv1.DisruptionReasonUnderutilized {
		return 0, 0
	}
	return Saved(c, nodeCost), int64(c.Evictions)
}

// Saved is what a command saves per hour, what nodes cost by themselves included, in micro USD.
func Saved(c *ledger.CommandStarted, nodeCost int64) int64 {
	return c.PriceBefore - c.PriceAfter + nodeCost*int64(len(c.Candidates)-len(c.Replacements))
}

// costs is what a rate per hour comes to; lasts is how long it takes to come to an amount, a millisecond at
// least, and a day at most.
func costs(rate int64, d time.Duration) int64 {
	return policy.Proportion(rate, d.Milliseconds(), time.Hour.Milliseconds())
}

func lasts(amount, rate int64) time.Duration {
	if amount/rate >= waitMax.Milliseconds()/time.Hour.Milliseconds() {
		return waitMax
	}
	return time.Duration(1+policy.Proportion(time.Hour.Milliseconds(), amount, rate)) * time.Millisecond
}
