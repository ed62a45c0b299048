package process

import (
	"context"
	"slices"
	"sync"
)

// Fanout passes on the notifications of a source that has one reader to any number of services.
type Fanout struct {
	source <-chan struct{}

	mu   sync.Mutex
	subs []chan struct{}
}

// NewFanout returns a Fanout of a source; Run passes on.
func NewFanout(source <-chan struct{}) *Fanout { return &Fanout{source: source} }

// Run passes notifications on until ctx ends.
func (f *Fanout) Run(ctx context.Context) error {
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-f.source:
		}
		f.mu.Lock()
		for _, ch := range f.subs {
			wake(ch)
		}
		f.mu.Unlock()
	}
}

// Subscribe implements Changes.
func (f *Fanout) Subscribe() (<-chan struct{}, func()) {
	ch := make(chan struct{}, 1)
	f.mu.Lock()
	defer f.mu.Unlock()
	f.subs = append(f.subs, ch)
	return ch, func() {
		f.mu.Lock()
		defer f.mu.Unlock()
		f.subs = slices.DeleteFunc(f.subs, func(c chan struct{}) bool { return c == ch })
	}
}
