package lifecycle

import (
	"maps"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/types"

	"millwright/services/lifecycle/garbage"
)

// searchedFor is how long it is remembered since when an instance is searched by its tag: longer than any search.
const searchedFor = 10 * time.Minute

// prune forgets what is about objects that are gone. What is about one that came since the scan is found out again.
func (m *memory) prune(p garbage.Present, now time.Time) {
	m.mu.Lock()
	defer m.mu.Unlock()
	maps.DeleteFunc(m.settled, func(key, _ string) bool { return !p.Names[strings.TrimPrefix(key, "shadow/")] })
	forget(m.marks, p.Names)
	forget(m.failures, p.Claims)
	forget(m.sought, p.Claims)
	forget(m.catalogues, p.ClassesInUse)
	maps.DeleteFunc(m.registering, func(_ types.UID, r registering) bool { return now.Sub(r.at) > writtenFor })
	maps.DeleteFunc(m.lookups, func(_ string, since time.Time) bool { return now.Sub(since) > searchedFor })
}

func forget[K comparable, V any](m map[K]V, kept map[K]bool) {
	maps.DeleteFunc(m, func(k K, _ V) bool { return !kept[k] })
}
