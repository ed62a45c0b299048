package claims

import (
	"maps"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/types"
)

// SearchedFor is how long it is remembered since when an instance is searched by its tag: longer than any
// search.
const SearchedFor = 10 * time.Minute

// prune forgets what is about objects that are gone. What is about one that came since the scan is found out
// again.
func (m *memory) prune(names map[string]bool, claims map[types.UID]bool, classes map[string]bool, now time.Time) {
	m.mu.Lock()
	defer m.mu.Unlock()
	maps.DeleteFunc(m.settled, func(key, _ string) bool { return !names[strings.TrimPrefix(key, "shadow/")] })
	forget(m.marks, names)
	forget(m.unnamed, names)
	m.refusals.prune(names, now)
	forget(m.failures, claims)
	forget(m.sought, claims)
	forget(m.boots, claims)
	forget(m.catalogues, classes)
	maps.DeleteFunc(m.told, func(k toldKey, _ time.Time) bool { return !names[k.name] })
	maps.DeleteFunc(m.written, func(k writtenKey, _ string) bool { return !names[k.claim] })
	maps.DeleteFunc(m.registering, func(_ types.UID, r registering) bool { return now.Sub(r.at).Abs() > writtenFor })
	maps.DeleteFunc(m.lookups, func(_ string, since time.Time) bool { return now.Sub(since).Abs() > SearchedFor })
}

func forget[K comparable, V any](m map[K]V, kept map[K]bool) {
	maps.DeleteFunc(m, func(k K, _ V) bool { return !kept[k] })
}
