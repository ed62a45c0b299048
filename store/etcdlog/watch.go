package etcdlog

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/cenkalti/backoff/v4"
	clientv3 "go.etcd.io/etcd/client/v3"

	"millwright/store"
	"millwright/store/record"
)

// Watch implements store.Log. It reads up to the head, then follows etcd's events; after any irregularity (a
// lost connection, a history compacted by etcd, a hole, events that do not come) it reads again from the
// first record it has not delivered.
func (l *Log) Watch(ctx context.Context, from uint64, fn func(store.Record) error) error {
	w := &watcher{log: l, next: max(from, 1), fn: fn}
	retry := backoff.NewExponentialBackOff(backoff.WithInitialInterval(20*time.Millisecond),
		backoff.WithMaxInterval(time.Second), backoff.WithMaxElapsedTime(0))
	for {
		before := w.next
		err := w.run(ctx)
		switch {
		case ctx.Err() != nil:
			return ctx.Err()
		case w.stopped != nil:
			return w.stopped
		case errors.Is(err, store.ErrCorrupt) || errors.Is(err, store.ErrCompacted):
			return err
		case w.next > before:
			retry.Reset()
		}
		if err := sleep(ctx, l.ctx, retry.NextBackOff()); err != nil {
			return err
		}
	}
}

// watcher is one Watch.
type watcher struct {
	log *Log
	// next is the first sequence not passed to fn yet, hash that of the record before; it is known once one
	// was delivered, and from the beginning if the log has it then.
	next  uint64
	hash  [32]byte
	known bool
	fn    func(store.Record) error
	// stopped is the error of fn.
	stopped error
}

// run reads and follows until something ends it. A nil error means: begin again.
func (w *watcher) run(ctx context.Context) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	defer context.AfterFunc(w.log.ctx, cancel)()
	if err := w.learn(ctx); err != nil {
		return err
	}
	revision, err := w.catchUp(ctx)
	if err != nil {
		return err
	}
	events := w.log.cfg.Client.Watch(clientv3.WithRequireLeader(ctx), w.log.keys.log(), clientv3.WithPrefix(),
		clientv3.WithRev(revision+1), clientv3.WithFilterDelete(), clientv3.WithFragment())
	look := time.NewTicker(lookAgainEvery)
	defer look.Stop()
	// What the last check found, and what next was then: nothing is checked while records come.
	missed, stood := uint64(0), uint64(0)
	for {
		select {
		case resp, open := <-events:
			if !open || resp.Err() != nil {
				return resp.Err()
			}
			for _, ev := range resp.Events {
				if again, err := w.event(ctx, ev); again || err != nil {
					return err
				}
			}
		case <-look.C:
			switch {
			case missed >= w.next:
				return nil
			case stood == w.next:
				missed = w.last(ctx)
			}
			stood = w.next
		}
	}
}

// learn reads the hash of the record before the first that is to be delivered: its caller has that one, and
// what comes must follow it, also if nothing comes for long and the log is restored meanwhile.
func (w *watcher) learn(ctx context.Context) error {
	if w.known || w.next == 1 {
		return nil
	}
	p, err := w.log.page(ctx, w.next-1, 1)
	switch {
	case len(p.records) == 1:
		w.hash, w.known = p.records[0].Hash, true
	case p.base.Seq == w.next-1:
		w.hash, w.known = p.base.Hash, true
	case errors.Is(err, store.ErrCompacted), errors.Is(err, store.ErrCorrupt): // catchUp says so, if the next one is too
	default:
		return err
	}
	return nil
}

// headTimeout bounds the read of the last record: events wait meanwhile.
const headTimeout = 500 * time.Millisecond

// last is the sequence of the last record, requested from etcd: the event that announces it may never come.
// 0: not known.
func (w *watcher) last(ctx context.Context) uint64 {
	ctx, cancel := context.WithTimeout(ctx, headTimeout)
	defer cancel()
	head, err := w.log.Head(ctx)
	if err != nil {
		return 0
	}
	return head.Seq
}

// catchUp delivers all existing records and returns the revision it has seen.
func (w *watcher) catchUp(ctx context.Context) (int64, error) {
	for {
		p, err := w.log.page(ctx, w.next, pageRecords)
		for _, s := range p.records {
			if err := w.deliver(ctx, s); err != nil {
				return 0, err
			}
		}
		if err == nil {
			err = w.reaches(p.head)
		}
		if err != nil || w.next > p.head.Seq {
			return p.revision, err
		}
	}
}

// reaches reports ErrCorrupt if the log ends before what was delivered: it was restored from a backup.
func (w *watcher) reaches(head record.Place) error {
	if w.known && (head.Seq < w.next-1 || head.Seq == w.next-1 && head.Hash != w.hash) {
		return fmt.Errorf("the log ends at record %d, which is not the one that was read up to record %d: it was restored from a backup: %w",
			head.Seq, w.next-1, store.ErrCorrupt)
	}
	return nil
}

// event handles one change of a log key; again means that there is a hole before it.
func (w *watcher) event(ctx context.Context, ev *clientv3.Event) (again bool, err error) {
	seq, err := w.log.keys.sequence(string(ev.Kv.Key))
	switch {
	case err != nil:
		return false, err
	case seq < w.next:
		return false, nil
	case seq > w.next:
		return true, nil
	}
	s, err := record.Unmarshal(seq, ev.Kv.Value)
	if err != nil {
		return false, err
	}
	return false, w.deliver(ctx, s)
}

func (w *watcher) deliver(ctx context.Context, s record.Stored) error {
	if w.known {
		if err := s.Follows(store.Head{Seq: w.next - 1, Hash: w.hash}); err != nil {
			return err
		}
	}
	r, err := w.log.resolve(ctx, s)
	if err != nil {
		return err
	}
	if w.stopped = w.fn(r); w.stopped != nil {
		return w.stopped
	}
	w.next, w.hash, w.known = s.Seq+1, s.Hash, true
	return nil
}

// sleep returns an error if ctx ends or the log is closed.
func sleep(ctx, log context.Context, d time.Duration) error {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-ctx.Done():
		return ctx.Err()
	case <-log.Done():
		return errClosed
	case <-t.C:
		return nil
	}
}
