package garbage

import (
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"sync"
	"time"

	"millwright/planner"
	"millwright/planner/claim"
	"millwright/planner/ledger"
	"millwright/services/internal/service"
)

// Window is within which at most max(Floor, percent) claims are doomed by one reason that follows from time
// alone.
const Window = time.Minute

// Breaker paces what follows from time alone (DESIGN §2): should a clock be wrong in spite of all, it ends a
// few nodes a minute and an alarm is raised.
type Breaker struct {
	host   service.Host
	alarms *Alarms

	mu sync.Mutex
	// dooms are the times at which claims were doomed lately, by reason, oldest first; seeded: those of an
	// earlier leader are among them.
	dooms  map[string][]time.Time
	seeded bool
	// held are the claims that wait since the last step began, by reason.
	held map[string]int
	// asOf is the watcher's last heartbeat, zero before the first: then nothing follows from time alone.
	asOf time.Time
}

// NewBreaker returns a breaker that has seen no heartbeat.
func NewBreaker(host service.Host, alarms *Alarms) *Breaker {
	return &Breaker{host: host, alarms: alarms, held: map[string]int{}}
}

// beforeAll is what a World that has seen no heartbeat is as of.
var beforeAll = time.Unix(1, 0).UTC()

// See takes in the watcher's last heartbeat, and once what an earlier leader doomed.
func (b *Breaker) See(now time.Time) {
	_ = b.host.Snapshot(service.ForEffects, func(snap *planner.Snapshot) error { // without one, time stands still
		b.mu.Lock()
		defer b.mu.Unlock()
		b.asOf = snap.World.AsOf().UTC()
		return nil
	})
	_ = b.host.Ledger(func(l *ledger.Ledger) error { // else in the next step
		b.seed(l, now)
		return nil
	})
}

// Timeless reports that no heartbeat of the watcher was seen.
func (b *Breaker) Timeless() bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.asOf.IsZero()
}

// seed counts what the log knows of dooms by claims that are still open: a new leader does not begin anew.
func (b *Breaker) seed(l *ledger.Ledger, now time.Time) {
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
		if json.Unmarshal(c.Doomed.Input, &in) == nil && now.Sub(in.Now) < Window {
			b.dooms[c.Doomed.Reason] = append(b.dooms[c.Doomed.Reason], in.Now)
		}
	}
	for _, list := range b.dooms {
		slices.SortFunc(list, time.Time.Compare)
	}
}

// Pace tells the input what time it is for sure, and for which reasons the claim, one of so many, has to
// wait.
func (b *Breaker) Pace(in *claim.Input, claims int) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if in.AsOf = b.asOf; in.AsOf.IsZero() {
		in.AsOf = beforeAll
	}
	for reason, list := range b.dooms {
		list = slices.DeleteFunc(list, func(at time.Time) bool { return in.Now.Sub(at) >= Window })
		b.dooms[reason] = list
		if !breaks(len(list)+1, claims) {
			continue
		}
		if in.Paced == nil {
			in.Paced = map[string]time.Time{}
		}
		in.Paced[reason] = list[0].Add(Window).UTC()
	}
}

// Doomed takes note that a claim was doomed.
func (b *Breaker) Doomed(reason string, at time.Time) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if claim.Timed(reason) {
		b.dooms[reason] = append(b.dooms[reason], at)
	}
}

// NotePaced takes note of a claim that would be doomed by now.
func (b *Breaker) NotePaced(in claim.Input) {
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

// Tell raises an alarm for each reason by which claims wait.
func (b *Breaker) Tell(ctx context.Context) {
	b.mu.Lock()
	held := b.held
	b.held = map[string]int{}
	b.mu.Unlock()
	for _, reason := range slices.Sorted(maps.Keys(held)) {
		b.alarms.Raise(ctx, reason+paced, fmt.Sprintf("%d more nodeclaims would go by %s: at most %d or %d %% of all do within %s",
			held[reason], reason, Floor, percent, Window))
	}
}
