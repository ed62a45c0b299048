package ec2

import (
	"context"
	"slices"
	"sync"
	"time"
)

// Calls about single instances that arrive within the window are sent as one (reference: ec2 §4.7).
const (
	batchWindow = 100 * time.Millisecond
	batchMax    = idsMax
)

// batcher joins calls about instances by id. A batch has its own deadline: a caller that gives up does not
// affect the others' answers.
type batcher[R any] struct {
	// ask answers for all ids at once; what concerns only one of them is part of its answer.
	ask     func(ctx context.Context, ids []string) (R, error)
	timeout time.Duration
	// name and metrics, which may be nil.
	name    string
	metrics *BatchMetrics

	mu   sync.Mutex
	open *batch[R]
}

// batch can be joined until its window is over or it is full. From then on ids belongs to its goroutine
// alone.
type batch[R any] struct {
	ids    []string
	full   chan struct{}
	done   chan struct{}
	answer R
	err    error
}

// do asks about ids, together with concurrent calls about others.
func (b *batcher[R]) do(ctx context.Context, ids []string) (R, error) {
	var none R
	if err := ctx.Err(); err != nil {
		return none, err
	}
	joined := b.joinBatch(ids)
	select {
	case <-joined.done:
		return joined.answer, joined.err
	case <-ctx.Done():
		return none, ctx.Err()
	}
}

func (b *batcher[R]) joinBatch(ids []string) *batch[R] {
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

// run ends with the answer, whose time the deadline bounds.
func (b *batcher[R]) run(joined *batch[R]) {
	defer close(joined.done)
	began := time.Now()
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
	if b.metrics != nil {
		b.metrics.Observe(b.name, time.Since(began), len(joined.ids))
	}
	ctx, cancel := context.WithTimeout(context.Background(), b.timeout)
	defer cancel()
	joined.answer, joined.err = b.ask(ctx, joined.ids)
}

// only keeps the instances with these ids.
func only(all []Instance, ids []string) []Instance {
	return slices.DeleteFunc(slices.Clone(all), func(i Instance) bool { return !slices.Contains(ids, i.ID) })
}
