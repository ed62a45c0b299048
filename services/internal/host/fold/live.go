package fold

import (
	"sync"
)

// live is what is folded, a World or a Ledger, and its versions.
type live[T interface{ Version() T }] struct {
	mu     sync.Mutex
	folded T
}

// version returns an immutable version of what is folded by now. It waits for one message or record at most.
func (l *live[T]) version() T {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.folded.Version()
}

// fold calls fn with what is folded, to change it. fn must not keep it, nor take long.
func (l *live[T]) fold(fn func(T) error) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	return fn(l.folded)
}

// replace continues with another one, if instead returns true for the present one.
func (l *live[T]) replace(by T, instead func(T) bool) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	if !instead(l.folded) {
		return false
	}
	l.folded = by
	return true
}
