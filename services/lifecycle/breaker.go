package lifecycle

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"sync"
	"time"

	"millwright/planner"
	"millwright/planner/claim"
	"millwright/planner/ledger"
	"millwright/services/internal/service"
)

// doomWindow is within which at most max(collectFloor, collectPercent) claims are doomed by one reason that follows from time alone.
const doomWindow = time.Minute

// breaker paces what follows from time alone (DESIGN §2): should a clock be wrong in spite of all, it ends a few nodes a minute and an
// alarm is raised.
type breaker struct {
	mu sync.Mutex
	// dooms are the times at which claims were doomed lately, by reason, oldest first; seeded: those of an earlier leader are among them.
	dooms  map[string][]time.Time
	seeded bool
	// held are the claims that wait since the last step began, by reason.
	held map[string]int
	// asOf is the watcher's last heartbeat, zero before the first: then nothing follows from time alone.
	asOf time.Time
}

// beforeAll is what a World that has seen no heartbeat is as of.
var beforeAll = time.Unix(1, 0).UTC()

// seeTime takes in the watcher's last heartbeat, and once what an earlier leader doomed.
func (s *Service) seeTime(now time.Time) {
	b := &s.breaker
	_ = s.host.Snapshot(service.ForEffects, func(snap *planner.Snapshot) error { // without one, time stands still
		b.mu.Lock()
		defer b.mu.Unlock()
		b.asOf = snap.World.AsOf().UTC()
		return nil
	})
	_ = s.host.Ledger(func(l *ledger.Ledger) error { // else in the next step
		b.seed(l, now)
		return nil
	})
}

// timeless reports that no heartbeat of the watcher was seen.
func (b *breaker) timeless() bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.asOf.IsZero()
}

// seed counts what the log knows of dooms by claims that are still open: a new leader does not begin anew.
func (b *breaker) seed(l *ledger.Ledger, now time.Time) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.seeded {
		return
	}
	b.seeded, b.dooms = true, map[string][]time.Time{}
	for _, c := range l.Claims() {
		if c.Doomed == nil || !claim.Timed(c.Doomed.Reason) {
			continue
		}
		var in struct{ Now time.Time }
		if json.Unmarshal(c.Doomed.Input, &in) == nil && now.Sub(in.Now) < doomWindow {
			b.dooms[c.Doomed.Reason] = append(b.dooms[c.Doomed.Reason], in.Now)
		}
	}
	for _, list := range b.dooms {
		slices.SortFunc(list, time.Time.Compare)
	}
}

// pace tells the input what time it is for sure, and for which reasons the claim, one of so many, has to wait.
func (b *breaker) pace(in *claim.Input, claims int) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if in.AsOf = b.asOf; in.AsOf.IsZero() {
		in.AsOf = beforeAll
	}
	for reason, list := range b.dooms {
		list = slices.DeleteFunc(list, func(at time.Time) bool { return in.Now.Sub(at) >= doomWindow })
		b.dooms[reason] = list
		if !breaks(len(list)+1, claims) {
			continue
		}
		if in.Paced == nil {
			in.Paced = map[string]time.Time{}
		}
		in.Paced[reason] = list[0].Add(doomWindow).UTC()
	}
}

// doomed takes note that a claim was doomed.
func (b *breaker) doomed(reason string, at time.Time) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if claim.Timed(reason) {
		b.dooms[reason] = append(b.dooms[reason], at)
	}
}

// notePaced takes note of a claim that would be doomed by now.
func (b *breaker) notePaced(in claim.Input) {
	if len(in.Paced) == 0 {
		return
	}
	in.Paced = nil
	a := claim.Next(in)
	if a.Move != claim.Doom || !claim.Timed(a.Reason) {
		return
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	b.held[a.Reason]++
}

// stepBreaker raises an alarm for each reason by which claims wait.
func (s *Service) stepBreaker(ctx context.Context) {
	b := &s.breaker
	b.mu.Lock()
	held := b.held
	b.held = map[string]int{}
	b.mu.Unlock()
	for _, reason := range sortedKeys(held) {
		s.alarm(ctx, reason+"_paced", fmt.Sprintf("%d more nodeclaims would go by %s: at most %d or %d %% of all do within %s",
			held[reason], reason, collectFloor, collectPercent, doomWindow))
	}
}
