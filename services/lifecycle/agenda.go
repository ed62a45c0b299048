package lifecycle

import (
	"container/heap"
	"fmt"
	"maps"
	"slices"
	"sync"
	"time"

	"millwright/planner/providerid"

	"millwright/planner/claim"
	"millwright/planner/ledger"
	"millwright/services/internal/kube"
)

const (
	// fullEvery is how often everything is looked at, whatever has changed.
	fullEvery = 30 * time.Second
)

// agenda says which claims are to be looked at: those of which something has changed, and those whose time
// has come. A settled cluster costs nothing but what changes in it. Whatever it does not notice is found at
// the latest with the next full look.
type agenda struct {
	mu  sync.Mutex
	due map[string]bool
	// all: everything is to be looked at.
	all bool
	// ofInstance is the claim of each instance id and provider id, as last seen.
	ofInstance map[string]string

	// What follows belongs to Step alone.

	wakes wakes
	// seen is what the last step saw.
	seen seen
	full time.Time
}

// seen is what a step looks at, to know at the next one what has changed.
type seen struct {
	cache   uint64
	ledger  *ledger.Ledger
	stop    ledger.Stop
	logAway bool
	// timeless: no heartbeat of the watcher was seen.
	timeless bool
	pools    map[string]string
	classes  map[string]claim.NodeClassFacts
}

func newAgenda() *agenda {
	return &agenda{due: map[string]bool{}, all: true, ofInstance: map[string]string{}, wakes: wakes{at: map[string]time.Time{}}}
}

// LookAt has a claim looked at in the next step.
func (a *agenda) LookAt(name string) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.due[name] = true
}

// hearOf has the claims of instances looked at, by instance id or provider id.
func (a *agenda) hearOf(ids ...string) {
	a.mu.Lock()
	defer a.mu.Unlock()
	for _, id := range ids {
		if name, ok := a.ofInstance[id]; ok {
			a.due[name] = true
		}
	}
}

// lookAtAll has everything looked at.
func (a *agenda) lookAtAll() {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.all = true
}

// silent reports that nothing is to be looked at.
func (a *agenda) silent() bool {
	a.mu.Lock()
	defer a.mu.Unlock()
	return !a.all && len(a.due) == 0
}

// NoteInstance remembers whose the instance is.
func (a *agenda) NoteInstance(name, providerID string) {
	if providerID == "" {
		return
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	_, instance := providerid.Split(providerID)
	a.ofInstance[providerID], a.ofInstance[instance] = name, name
}

// takeDue empties what is to be looked at: the names, or all.
func (a *agenda) takeDue() (names map[string]bool, all bool) {
	a.mu.Lock()
	defer a.mu.Unlock()
	names, all = a.due, a.all
	a.due, a.all = map[string]bool{}, false
	if all {
		clear(a.ofInstance) // the full look fills it again
	}
	return names, all
}

// lookAtChanged has what has changed since the last step looked at.
func (s *Service) lookAtChanged(now seen) {
	a := s.agenda
	was := a.seen
	if was.ledger == nil || now.stop != was.stop || now.logAway != was.logAway || now.timeless != was.timeless ||
		now.ledger.OptionsSeq() != was.ledger.OptionsSeq() {
		a.lookAtAll()
	} else if now.ledger != was.ledger {
		s.lookAtDiffering(was.ledger, now.ledger)
	}
	changes, _, complete := s.deps.Cache.Since(was.cache)
	if !complete {
		a.lookAtAll()
		s.status.TouchClasses()
	}
	for _, c := range changes {
		switch c.Kind {
		case kube.NodeKind:
			a.hearOf(c.ProviderID)
		case kube.NodeClaimKind:
			a.LookAt(c.Name)
		}
		if c.Kind == kube.NodeClaimKind || c.Kind == kube.NodeClassKind {
			s.status.TouchClasses()
		}
	}
	if s.poolsOrClassesChanged(changes, complete, &now) {
		a.lookAtAll()
	}
	a.seen = now
}

// lookAtDiffering has the claims looked at that differ, or whose drains differ, between two versions.
func (s *Service) lookAtDiffering(was, now *ledger.Ledger) {
	differing(was.Claims(), now.Claims(), func(c *ledger.Claim) string { return c.Name }, func(c *ledger.Claim) { s.agenda.LookAt(c.Name) })
	differing(was.Drains(), now.Drains(), func(d *ledger.Drain) string { return d.Started.Node }, func(d *ledger.Drain) {
		if d.Started.Claim == "" {
			s.agenda.lookAtAll() // one of whose NodeClaim nobody knew
			return
		}
		s.agenda.LookAt(d.Started.Claim)
	})
}

// differing calls found with what is not the same in both lists, which are sorted by key.
func differing[T any](was, now []*T, key func(*T) string, found func(*T)) {
	for len(was) > 0 || len(now) > 0 {
		switch {
		case len(now) == 0 || len(was) > 0 && key(was[0]) < key(now[0]):
			found(was[0])
			was = was[1:]
		case len(was) == 0 || key(now[0]) < key(was[0]):
			found(now[0])
			now = now[1:]
		default:
			if was[0] != now[0] {
				found(now[0])
			}
			was, now = was[1:], now[1:]
		}
	}
}

// poolsOrClassesChanged reports that what claims ask of NodePools or NodeClasses has changed. It completes
// now.
func (s *Service) poolsOrClassesChanged(changes []kube.Change, complete bool, now *seen) bool {
	was := s.agenda.seen
	touched := !complete || was.pools == nil || slices.ContainsFunc(changes, func(c kube.Change) bool {
		return c.Kind == kube.NodePoolKind || c.Kind == kube.NodeClassKind
	})
	if !touched {
		now.pools, now.classes = was.pools, was.classes
		return false
	}
	now.pools, now.classes = map[string]string{}, map[string]claim.NodeClassFacts{}
	for _, p := range s.deps.Cache.NodePools() {
		now.pools[p.Name] = string(p.UID)
	}
	for _, c := range s.deps.Cache.NodeClasses() {
		if facts := claim.FactsOfNodeClass(c); facts != nil {
			now.classes[c.Name] = *facts
		}
	}
	return !maps.Equal(was.pools, now.pools) || !maps.Equal(was.classes, now.classes)
}

// todo returns the claims to look at now, by name.
func (s *Service) todo(now time.Time) ([]string, error) {
	a := s.agenda
	if now.Sub(a.full).Abs() >= fullEvery {
		a.lookAtAll()
	}
	due, all := a.takeDue()
	if all {
		names, err := s.names()
		if err != nil {
			a.lookAtAll()
			return nil, err
		}
		a.full = now
		a.wakes.clear()
		return names, nil
	}
	for _, name := range a.wakes.due(now) {
		due[name] = true
	}
	return slices.Sorted(maps.Keys(due)), nil
}

// wakes are the times at which claims are to be looked at again, one for each.
type wakes struct {
	at   map[string]time.Time
	heap wakeHeap
}

type wake struct {
	name string
	at   time.Time
}

// setWake replaces the claim's time; zero: none.
func (w *wakes) setWake(name string, at time.Time) {
	if at.IsZero() {
		delete(w.at, name)
		return
	}
	if w.at[name].Equal(at) {
		return
	}
	w.at[name] = at
	heap.Push(&w.heap, wake{name, at})
}

// due removes and returns the claims whose time has come.
func (w *wakes) due(now time.Time) (names []string) {
	for w.next(); len(w.heap) > 0 && !w.heap[0].at.After(now); w.next() {
		names = append(names, w.heap[0].name)
		delete(w.at, w.heap[0].name)
	}
	return names
}

// next is the first time that is set; zero if there is none. It drops what was replaced.
func (w *wakes) next() time.Time {
	for len(w.heap) > 0 {
		if first := w.heap[0]; w.at[first.name].Equal(first.at) {
			return first.at
		}
		heap.Pop(&w.heap)
	}
	return time.Time{}
}

func (w *wakes) clear() {
	clear(w.at)
	w.heap = nil
}

// wakeHeap is a container/heap, earliest first.
type wakeHeap []wake

func (h wakeHeap) Len() int           { return len(h) }
func (h wakeHeap) Less(i, j int) bool { return h[i].at.Before(h[j].at) }
func (h wakeHeap) Swap(i, j int)      { h[i], h[j] = h[j], h[i] }
func (h *wakeHeap) Push(x any)        { *h = append(*h, x.(wake)) }
func (h *wakeHeap) Pop() any {
	last := (*h)[len(*h)-1]
	*h = (*h)[:len(*h)-1]
	return last
}

// names lists every claim that is open in the Ledger or exists as an object, sorted.
func (s *Service) names() ([]string, error) {
	seen := map[string]bool{}
	err := s.host.Ledger(func(l *ledger.Ledger) error {
		for _, c := range l.Claims() {
			seen[c.Name] = true
		}
		return nil
	})
	if err != nil {
		return nil, fmt.Errorf("read ledger: %w", err)
	}
	for _, o := range s.deps.Cache.NodeClaims() {
		if claim.Managed(o) {
			seen[o.Name] = true
		}
	}
	return slices.Sorted(maps.Keys(seen)), nil
}
