package ec2

import (
	"context"
	"slices"
	"sync"
	"time"
)

// Calls about single instances that come within the window go out as one (reference: ec2 §4.7).
const (
	batchWindow = 100 * time.Millisecond
	batchMax    = idsMax
)

// batcher joins calls about instances by id. A batch has its own deadline: who gives up waiting leaves the others' answers alone.
type batcher[R any] struct {
	// ask answers for all ids at once; what concerns one of them alone is in its answer.
	ask     func(ctx context.Context, ids []string) (R, error)
	timeout time.Duration

	mu   sync.Mutex
	open *batch[R]
}

// batch is joined until its window is over or it is full. ids is the asker's alone from then on.
type batch[R any] struct {
	ids    []string
	full   chan struct{}
	done   chan struct{}
	answer R
	err    error
}

// do asks about ids, together with whoever asks about others now.
func (b *batcher[R]) do(ctx context.Context, ids []string) (R, error) {
	var none R
	if err := ctx.Err(); err != nil {
		return none, err
	}
	joined := b.join(ids)
	select {
	case <-joined.done:
		return joined.answer, joined.err
	case <-ctx.Done():
		return none, ctx.Err()
	}
}

func (b *batcher[R]) join(ids []string) *batch[R] {
	b.mu.Lock()
	defer b.mu.Unlock()
	joined := b.open
	if joined == nil {
		joined = &batch[R]{full: make(chan struct{}), done: make(chan struct{})}
		b.open = joined
		go b.run(joined)
	}
	joined.ids = append(joined.ids, ids...)
	if len(joined.ids) >= batchMax {
		b.open = nil
		close(joined.full)
	}
	return joined
}

// run ends with the answer, which its deadline bounds.
func (b *batcher[R]) run(joined *batch[R]) {
	defer close(joined.done)
	timer := time.NewTimer(batchWindow)
	defer timer.Stop()
	select {
	case <-timer.C:
	case <-joined.full:
	}
	b.mu.Lock()
	if b.open == joined {
		b.open = nil
	}
	b.mu.Unlock()
	ctx, cancel := context.WithTimeout(context.Background(), b.timeout)
	defer cancel()
	joined.answer, joined.err = b.ask(ctx, joined.ids)
}

// only keeps the instances with these ids.
func only(all []Instance, ids []string) []Instance {
	return slices.DeleteFunc(slices.Clone(all), func(i Instance) bool { return !slices.Contains(ids, i.ID) })
}
