package provisioner

import (
	"time"

	"k8s.io/apimachinery/pkg/types"

	"millwright/planner"
	"millwright/planner/world"
)

// batch is the pods without a verdict that have arrived since the last round.
type batch struct {
	// first and last are when its first and its newest pod were seen; zero if it is empty. size counts its
	// pods.
	first, last time.Time
	size        int
	seen        seen
	// pending is the list last looked at; the World returns the same list as long as none of it changes.
	pending []*world.Pod
}

// seen holds the pods that wait for a place, with when each was first seen, and whether a round has
// considered it. It is rebuilt at each look, so that it holds no pod that is gone.
type seen map[types.UID]sighting

type sighting struct {
	at      time.Time
	planned bool
}

// notePending takes in the pods of a Snapshot, and returns how many wait for a first verdict.
func (b *batch) notePending(s *planner.Snapshot) (waiting int) {
	pending := s.World.PendingPods()
	if len(pending) == len(b.pending) && (len(pending) == 0 || &pending[0] == &b.pending[0]) {
		return b.size
	}
	next := make(seen, len(b.seen))
	b.first, b.last = time.Time{}, time.Time{}
	for _, p := range pending {
		if !planner.IsProvisionable(p) {
			continue
		}
		x, known := b.seen[p.UID]
		if !known {
			x = sighting{at: s.Now, planned: s.Ledger.Verdict(p.UID) != nil}
		}
		next[p.UID] = x
		if x.planned {
			continue
		}
		waiting++
		if b.first.IsZero() || x.at.Before(b.first) {
			b.first = x.at
		}
		if x.at.After(b.last) {
			b.last = x.at
		}
	}
	b.seen, b.size, b.pending = next, waiting, pending
	return waiting
}

func (b *batch) open() bool { return !b.first.IsZero() }

// burstSize pods are a burst: more are likely to come, so the idle time is up to burstFactor times as long,
// but at most burstIdleMax. A few pods get their NodeClaim sooner.
const (
	burstSize    = 10
	burstFactor  = 5
	burstIdleMax = time.Second
)

// wait returns how long an open batch stays open: until the idle time after its newest pod, at most until
// BatchMaxDuration after its first. It ends with a clock that is set back.
func (b *batch) wait(now time.Time, o planner.Options) time.Duration {
	if now.Before(b.first) {
		return 0
	}
	return max(0, min(b.last.Add(b.idle(o)).Sub(now), b.first.Add(o.BatchMaxDuration).Sub(now)))
}

func (b *batch) idle(o planner.Options) time.Duration {
	if b.size < burstSize {
		return o.BatchIdleDuration
	}
	return max(o.BatchIdleDuration, min(burstFactor*o.BatchIdleDuration, burstIdleMax))
}

// close marks all pods as planned and returns how long the new ones had waited.
func (b *batch) close(now time.Time) []time.Duration {
	var waited []time.Duration
	for uid, x := range b.seen {
		if !x.planned {
			waited = append(waited, max(0, now.Sub(x.at)))
			b.seen[uid] = sighting{at: x.at, planned: true}
		}
	}
	b.first, b.last, b.size = time.Time{}, time.Time{}, 0
	return waited
}
