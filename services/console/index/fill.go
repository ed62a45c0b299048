package index

import (
	"context"
	"errors"
	"time"

	"github.com/cenkalti/backoff/v4"
	"github.com/rs/zerolog"

	"millwright/planner/ledger"
	"millwright/services/internal/clock"
	"millwright/store"
	"millwright/store/audit"
	"millwright/store/audit/overview"
)

const (
	pageSize = 200
	// pauseMax bounds the pause after a page, which is as long as the page took: filling the Index never uses
	// more than half of a core.
	pauseMax = 200 * time.Millisecond
	retryMax = 30 * time.Second
)

// Run keeps the Index up with the log until ctx ends. It retries what fails.
func (x *Index) Run(ctx context.Context, log store.Log, logger zerolog.Logger) {
	retry := backoff.NewExponentialBackOff(backoff.WithMaxElapsedTime(0), backoff.WithInitialInterval(200*time.Millisecond), backoff.WithMaxInterval(retryMax))
	for ctx.Err() == nil {
		_, before, _ := x.Extent()
		err := x.follow(ctx, log)
		if ctx.Err() != nil {
			return
		}
		if _, last, _ := x.Extent(); last > before {
			retry.Reset()
		}
		if errors.Is(err, store.ErrCompacted) { // away for so long that what follows is archived
			x.reset()
		}
		wait := retry.NextBackOff()
		logger.Warn().Err(err).Dur("retry_in", wait).Msg("index of the log interrupted")
		_ = clock.Sleep(ctx, wait)
	}
}

func (x *Index) follow(ctx context.Context, log store.Log) error {
	head, err := log.Head(ctx)
	if err != nil {
		return err
	}
	from, err := x.next(ctx, log, head.Seq)
	if err != nil {
		return err
	}
	for from <= head.Seq {
		began := time.Now()
		page, err := log.Read(ctx, from, pageSize)
		for _, rec := range page {
			x.add(decode(rec))
			from = rec.Seq + 1
		}
		if err != nil {
			return err
		}
		if len(page) == 0 {
			break
		}
		_ = clock.Sleep(ctx, min(time.Since(began), pauseMax))
	}
	return log.Watch(ctx, from, func(rec store.Record) error {
		x.add(decode(rec))
		return nil
	})
}

// next is the record to go on with: the one after what is held, or the first of the newest ones.
func (x *Index) next(ctx context.Context, log store.Log, head uint64) (uint64, error) {
	x.mu.Lock()
	x.head = max(x.head, head)
	held := len(x.rows)
	first := x.first
	x.mu.Unlock()
	if held > 0 {
		return first + uint64(held), nil
	}
	from := max(1, head-min(head, uint64(x.rowsMax))+1)
	_, err := log.Read(ctx, from, 1)
	if errors.Is(err, store.ErrCompacted) {
		return overview.FirstLive(ctx, log, from, head)
	}
	return from, err
}

// decode reads a record as far as this version can.
func decode(rec store.Record) ledger.Entry {
	e, err := audit.Decode(rec)
	if err != nil {
		e = ledger.Entry{Seq: rec.Seq, Time: rec.Time, Service: rec.Service, Mode: ledger.Mode(rec.Mode), Kind: ledger.Kind(rec.Kind), Subjects: rec.Subjects}
	}
	return e
}
