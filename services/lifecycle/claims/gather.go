package claims

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"sync"
	"time"

	"millwright/planner/ledger"
	"millwright/services/lifecycle/effects"
	"millwright/services/lifecycle/launch"
)

const (
	// fleetMax bounds the claims of one request, so that the record of its answer stays small.
	fleetMax = 40
	// gatherFor is how long a claim waits at most for others that an equal request launches, gatherIdle how
	// long for the next one.
	gatherFor  = time.Second
	gatherIdle = 100 * time.Millisecond
	// builtFor is how long what was built for a launch is good: the catalogue, marks and prices it was chosen
	// by change.
	builtFor = 10 * time.Second
	// apartFor is how long claims are launched one by one after some service was found not to know records of
	// fleets.
	apartFor = time.Minute
	// launchingFor is how long an effect that launches is believed in, which may have to wait for its turn.
	// If it never ran the claim is built again; if it still does, only one of the two can open an attempt.
	launchingFor = 2 * effects.Timeout
)

// gathering holds the claims whose requests are built, until they are sent: those for which equal things are
// asked go out together (DESIGN §5). It forgets nothing that matters: what is lost is built again.
type gathering struct {
	mu    sync.Mutex
	built map[string]builtLaunch
	// launching are the claims of an effect that launches, since when.
	launching map[string]time.Time
	// apartUntil is until when every claim is launched alone.
	apartUntil time.Time
}

// builtLaunch is what is asked for a claim, chosen when its aggregate stood at a record.
type builtLaunch struct {
	name, pool  string
	launch      launch.Built
	annotations map[string]string
	at          uint64
	since       time.Time
	// notBefore is when it may be sent, if it could not be a moment ago.
	notBefore time.Time
}

// key of the claims that are launched together: they are of one NodePool, ask for the same, and will say the
// same of what they were built from.
func (b builtLaunch) key() string {
	if !b.launch.Joint() || b.launch.Key == "" {
		return b.name
	}
	return b.pool + "/" + b.launch.Key + "/" + fmt.Sprint(b.annotations)
}

func newGathering() *gathering {
	return &gathering{built: map[string]builtLaunch{}, launching: map[string]time.Time{}}
}

func (g *gathering) add(b builtLaunch) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.built[b.name] = b
}

// has reports that a claim waits to be launched, or is being launched.
func (g *gathering) has(name string, now time.Time) bool {
	g.mu.Lock()
	defer g.mu.Unlock()
	_, waits := g.built[name]
	since, launching := g.launching[name]
	return waits || launching && now.Sub(since).Abs() <= launchingFor
}

// drop forgets what was built for a claim that is not to be launched.
func (g *gathering) drop(name string) {
	g.mu.Lock()
	defer g.mu.Unlock()
	delete(g.built, name)
}

// take gives what was built for the claims to an effect that launches them.
func (g *gathering) take(names []string, now time.Time) (list []builtLaunch) {
	g.mu.Lock()
	defer g.mu.Unlock()
	for _, name := range names {
		list = append(list, g.built[name])
		delete(g.built, name)
		g.launching[name] = now
	}
	return list
}

// done says that no effect launches the claims any more.
func (g *gathering) done(names []string) {
	g.mu.Lock()
	defer g.mu.Unlock()
	for _, name := range names {
		delete(g.launching, name)
	}
}

// apart has every claim launched alone for a while.
func (g *gathering) apart(until time.Time) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.apartUntil = until
}

// isApart is false also of a time that a clock told which was ahead and is put right.
func (g *gathering) isApart(now time.Time) bool {
	return now.Before(g.apartUntil) && g.apartUntil.Sub(now) <= apartFor
}

// retain drops what is built for claims that are gone.
func (g *gathering) retain(names map[string]bool) {
	g.mu.Lock()
	defer g.mu.Unlock()
	maps.DeleteFunc(g.built, func(name string, _ builtLaunch) bool { return !names[name] })
}

func (g *gathering) len() int {
	g.mu.Lock()
	defer g.mu.Unlock()
	return len(g.built) + len(g.launching)
}

// waits reports that claims wait to be launched.
func (g *gathering) waits() bool {
	g.mu.Lock()
	defer g.mu.Unlock()
	return len(g.built) > 0
}

// groups are the claims to be launched now, by request, and when to look again at the others, which wait
// because more claims of their NodePool are coming, of which that is the number. If there are enough to fill
// the request, a pause between them says nothing.
func (g *gathering) groups(now time.Time, coming map[string]int) (due [][]string, wake time.Time) {
	g.mu.Lock()
	defer g.mu.Unlock()
	maps.DeleteFunc(g.built, func(_ string, b builtLaunch) bool { return now.Sub(b.since).Abs() > builtFor })
	list := slices.Collect(maps.Values(g.built))
	for _, b := range list {
		if now.Before(b.notBefore) {
			wake = effects.Earliest(wake, b.notBefore)
		}
	}
	list = slices.DeleteFunc(list, func(b builtLaunch) bool { return now.Before(b.notBefore) })
	slices.SortFunc(list, func(a, b builtLaunch) int {
		return cmp.Or(cmp.Compare(a.key(), b.key()), a.since.Compare(b.since), cmp.Compare(a.name, b.name))
	})
	for len(list) > 0 {
		first := list[0]
		n := slices.IndexFunc(list, func(b builtLaunch) bool { return b.key() != first.key() })
		if n < 0 {
			n = len(list)
		}
		size := min(n, fleetMax)
		if g.isApart(now) {
			size = 1
		}
		at := first.since.Add(gatherFor)
		if n+coming[first.pool] < fleetMax {
			at = effects.Earliest(at, list[n-1].since.Add(gatherIdle))
		}
		if n < fleetMax && first.launch.Joint() && !g.isApart(now) && now.Before(at) && coming[first.pool] > 0 {
			wake, list = effects.Earliest(wake, at), list[n:]
			continue
		}
		due, list = append(due, sortedNames(list[:size])), list[size:]
	}
	return due, wake
}

// earliest is when the first of them was built.
func earliest(list []builtLaunch) (at time.Time) {
	for _, b := range list {
		at = effects.Earliest(at, b.since)
	}
	return at
}

func sortedNames(list []builtLaunch) (names []string) {
	for _, b := range list {
		names = append(names, b.name)
	}
	slices.Sort(names)
	return names
}

// coming counts the claims that are on their way to a launch, by NodePool: planned or made, not going, and
// with nothing that holds them up.
func (s launcher) coming(now time.Time) map[string]int {
	pools := map[string]int{}
	_ = s.host.Ledger(func(l *ledger.Ledger) error {
		for _, c := range l.Claims() {
			early := c.State == ledger.ClaimPlanned || c.State == ledger.ClaimCreatedOnce
			if early && c.Doomed == nil && pools[c.NodePool] < fleetMax && !s.gathering.has(c.Name, now) && !s.effects.Waits(claimKey(c.Name)) {
				pools[c.NodePool]++
			}
		}
		return nil
	})
	return pools
}
