package lifecycle

import (
	"maps"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/types"
)

// searchedFor is how long it is remembered since when an instance is searched by its tag: longer than any search.
const searchedFor = 10 * time.Minute

// present are the objects a scan found. What is remembered of others goes.
type present struct {
	names, classes map[string]bool
	claims, pools  map[types.UID]bool
}

func (s *Service) presentBy(l *listing) present {
	p := present{names: map[string]bool{}, classes: map[string]bool{}, claims: map[types.UID]bool{}, pools: map[types.UID]bool{}}
	for i := range l.open {
		p.names[l.open[i].Name], p.claims[l.open[i].UID] = true, true
	}
	for _, o := range l.claims {
		p.names[o.Name], p.claims[o.UID] = true, true
	}
	for _, o := range l.pools {
		p.pools[o.UID] = true
	}
	for _, nc := range s.deps.Cache.NodeClasses() {
		p.classes[nc.Name] = true
	}
	return p
}

// prune forgets what is about objects that are gone. What is about one that came since the scan is found out again.
func (m *memory) prune(p present, now time.Time) {
	m.mu.Lock()
	defer m.mu.Unlock()
	maps.DeleteFunc(m.settled, func(key, _ string) bool { return !p.names[strings.TrimPrefix(key, "shadow/")] })
	forget(m.marks, p.names)
	forget(m.failures, p.claims)
	forget(m.sought, p.claims)
	forget(m.registrations, p.pools)
	forget(m.classAt, p.classes)
	maps.DeleteFunc(m.launches, func(_ string, at time.Time) bool { return now.Sub(at) > visibleAfter })
	maps.DeleteFunc(m.registering, func(_ types.UID, r registering) bool { return now.Sub(r.at) > writtenFor })
	maps.DeleteFunc(m.lookups, func(_ string, since time.Time) bool { return now.Sub(since) > searchedFor })
}

func forget[K comparable, V any](m map[K]V, kept map[K]bool) {
	maps.DeleteFunc(m, func(k K, _ V) bool { return !kept[k] })
}
