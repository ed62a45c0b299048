package fold

import (
	"slices"
	"sync"
)

// Signals wakes subscribers. A subscriber that has not yet looked is woken once for any number of changes.
type Signals struct {
	mu   sync.Mutex
	subs []chan struct{}
}

// Subscribe returns a channel that gets a value after changes, and a function that ends the subscription.
func (s *Signals) Subscribe() (<-chan struct{}, func()) {
	ch := make(chan struct{}, 1)
	s.mu.Lock()
	s.subs = append(s.subs, ch)
	s.mu.Unlock()
	return ch, func() {
		s.mu.Lock()
		s.subs = slices.DeleteFunc(s.subs, func(c chan struct{}) bool { return c == ch })
		s.mu.Unlock()
	}
}

// Broadcast wakes all.
func (s *Signals) Broadcast() {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, ch := range s.subs {
		select {
		case ch <- struct{}{}:
		default:
		}
	}
}

// waiters wait until a sequence is folded.
type waiters struct {
	mu      sync.Mutex
	waiting []waiter
}

type waiter struct {
	seq     uint64
	reached chan struct{}
}

// untilFolded returns a channel that is closed once seq is folded. now reads the present sequence; it is
// called after advance knows of the waiter, so that none is missed.
func (w *waiters) untilFolded(seq uint64, now func() uint64) <-chan struct{} {
	ch := make(chan struct{})
	w.mu.Lock()
	w.waiting = append(w.waiting, waiter{seq: seq, reached: ch})
	w.mu.Unlock()
	w.advance(now())
	return ch
}

// advance wakes those who wait for seq or less.
func (w *waiters) advance(seq uint64) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.waiting = slices.DeleteFunc(w.waiting, func(x waiter) bool {
		if x.seq > seq {
			return false
		}
		close(x.reached)
		return true
	})
}
