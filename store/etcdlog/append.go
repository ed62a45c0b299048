package etcdlog

import (
	"context"
	"fmt"
	"time"

	"millwright/store"
	"millwright/store/record"
)

// queueMax bounds the drafts that wait for the committer; an Append beyond it blocks until there is room.
const queueMax = 4096

// request is a draft on its way through the committer.
type request struct {
	ctx   context.Context
	draft *record.Prepared
	// at is when the request was made: only something read later can refuse it.
	at   time.Time
	done chan result
}

type result struct {
	record store.Record
	err    error
}

// answer never blocks: done has room for the one answer each request gets.
func (r *request) answer(rec store.Record, err error) {
	r.done <- result{record: rec, err: err}
}

// Append implements store.Log.
func (l *Log) Append(ctx context.Context, d store.Draft) (store.Record, error) {
	p, err := record.Prepare(d)
	if err != nil {
		return store.Record{}, fmt.Errorf("append: %w", err)
	}
	if l := p.Draft.Lease; l.Key == "" && l.Revision != 0 {
		return store.Record{}, fmt.Errorf("append: lease without a key: %w", store.ErrFenced)
	}
	if err := l.putContents(ctx, p); err != nil {
		return store.Record{}, fmt.Errorf("append: %w", withRefusal(err))
	}
	r := &request{ctx: ctx, draft: p, at: time.Now(), done: make(chan result, 1)}
	rec, err := l.enqueue(r)
	if err != nil {
		return store.Record{}, fmt.Errorf("append: %w", err)
	}
	return rec, nil
}

// putContents stores what is too long for a record. It is stored before the record that names it.
func (l *Log) putContents(ctx context.Context, p *record.Prepared) error {
	if p.Payload.Blob {
		if _, err := l.PutBlob(ctx, p.Draft.Payload); err != nil {
			return err
		}
	}
	if p.Explanation.Blob && !p.Draft.OmitExplanation {
		if _, err := l.PutBlob(ctx, p.Draft.Explanation); err != nil {
			return err
		}
	}
	return nil
}

func (l *Log) enqueue(r *request) (store.Record, error) {
	select {
	case <-r.ctx.Done():
		return store.Record{}, r.ctx.Err()
	case <-l.ctx.Done():
		return store.Record{}, errClosed
	case l.queue <- r:
	}
	select {
	case res := <-r.done:
		return res.record, res.err
	case <-r.ctx.Done():
		return store.Record{}, r.ctx.Err()
	case <-l.closed:
	}
	select {
	case res := <-r.done:
		return res.record, res.err
	default:
		return store.Record{}, errClosed
	}
}
