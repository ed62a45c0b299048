package past

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"sync"
	"time"

	"github.com/cenkalti/backoff/v4"
	"github.com/rs/zerolog"

	"millwright/planner/ledger"
	"millwright/services/console/history"
	"millwright/services/internal/clock"
	"millwright/store"
	"millwright/store/audit/subjects"
)

const (
	pageSize = 500
	// pauseMax bounds the pause after a page, which is as long as the page took.
	pauseMax = 200 * time.Millisecond
	// lookEvery is how often it is looked whether records were missed; they come through Add.
	lookEvery = 30 * time.Second
	retryMax  = 5 * time.Minute
	// saveEvery bounds how often the history is written: at most that much is added up again after a crash.
	saveEvery = time.Minute
)

// Past of one log. Run fills it; everything else may be called at any time.
type Past struct {
	dir, logID string
	now        func() time.Time

	// mu guards what follows.
	mu    sync.Mutex
	index *subjects.Index
	// history is of the records before next, whole is set once it has reached those that Add brings.
	history *history.History
	next    uint64
	whole   bool
	// reachedEnd is closed then.
	reachedEnd chan struct{}
	// offered is the last record that Add has brought.
	offered uint64
	saved   time.Time
}

// New returns a Past that keeps its files in a directory. It has no side effects.
func New(dir, logID string, now func() time.Time) *Past {
	return &Past{dir: dir, logID: logID, now: now, reachedEnd: make(chan struct{})}
}

// Add takes in a new record. Those before it are read from the log by Run.
func (p *Past) Add(e ledger.Entry) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.offered = max(p.offered, e.Seq)
	if p.index != nil {
		_ = p.feed(e) // Run tries again what cannot be written
	}
}

// feed takes in a record, as far as it is the next one.
func (p *Past) feed(e ledger.Entry) error {
	if e.Seq == p.next {
		p.count(e)
		p.next++
	}
	if e.Seq != p.index.Next() {
		return nil
	}
	err := p.index.Add(e)
	if err == nil && e.Seq%subjects.ChunkSize == 0 && p.now().Sub(p.saved) > saveEvery {
		err = p.save()
	}
	return err
}

// count must not end the process for a record that cannot be added up.
func (p *Past) count(e ledger.Entry) {
	defer func() { _ = recover() }()
	p.history.Add(e)
}

func (p *Past) historyFile() string { return filepath.Join(p.dir, "history") }

func (p *Past) save() error {
	p.saved = p.now()
	return p.history.Save(p.historyFile())
}

// Run keeps up with the log until ctx ends. It retries what fails.
func (p *Past) Run(ctx context.Context, log store.Log, logger zerolog.Logger) {
	retry := backoff.NewExponentialBackOff(backoff.WithMaxElapsedTime(0), backoff.WithInitialInterval(time.Second), backoff.WithMaxInterval(retryMax))
	for ctx.Err() == nil {
		wait := lookEvery
		if err := p.catchUp(ctx, log); err == nil {
			retry.Reset()
		} else if ctx.Err() == nil {
			wait = retry.NextBackOff()
			logger.Warn().Err(err).Dur("retry_in", wait).Msg("index of archived records interrupted")
		}
		_ = clock.Sleep(ctx, wait)
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.index != nil && p.next > 1 {
		if err := p.save(); err != nil {
			logger.Warn().Err(err).Msg("history of the log not kept")
		}
	}
}

// open finds what is there already.
func (p *Past) open(head uint64) error {
	if p.index != nil {
		return nil
	}
	index, err := subjects.Open(p.dir, p.logID)
	if err != nil {
		return err
	}
	index.Resume(head)
	p.mu.Lock()
	defer p.mu.Unlock()
	past, err := history.Load(p.historyFile(), p.logID)
	if err != nil || past.Last() > head {
		past = history.New(p.logID)
	}
	p.index, p.history, p.next, p.saved = index, past, past.Last()+1, p.now()
	return nil
}

// catchUp reads what the log has by now.
func (p *Past) catchUp(ctx context.Context, log store.Log) error {
	head, err := log.Head(ctx)
	if err != nil {
		return fmt.Errorf("read the log's head: %w", err)
	}
	if err := p.open(head.Seq); err != nil {
		return err
	}
	p.index.Repair()
	for ctx.Err() == nil {
		began := time.Now()
		from, end := p.position()
		if end = max(end, head.Seq); from > end {
			return p.reached()
		}
		page, err := log.Read(ctx, from, pageSize)
		if fed := p.feedAll(page); fed != nil {
			return fed
		}
		switch {
		case errors.Is(err, store.ErrCompacted):
			if err := p.skip(ctx, log, from+uint64(len(page)), end); err != nil {
				return err
			}
		case err != nil:
			return fmt.Errorf("read log from %d: %w", from, err)
		case len(page) == 0:
			return nil
		}
		p.index.Resume(end)
		_ = clock.Sleep(ctx, min(time.Since(began), pauseMax))
	}
	return ctx.Err()
}

func (p *Past) feedAll(page []store.Record) error {
	for _, rec := range page {
		e := subjects.Decode(rec)
		p.mu.Lock()
		err := p.feed(e)
		p.mu.Unlock()
		if err != nil {
			return err
		}
	}
	return nil
}

// position is the record to go on with, and the last one that there is.
func (p *Past) position() (from, end uint64) {
	p.mu.Lock()
	defer p.mu.Unlock()
	return min(p.next, p.index.Next()), p.offered
}

// reached notes that the end of the log is, the first time by writing the history down.
func (p *Past) reached() error {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.whole {
		return nil
	}
	p.whole = true
	close(p.reachedEnd)
	return p.save()
}

// skip leaves out records that nobody has any more.
func (p *Past) skip(ctx context.Context, log store.Log, from, end uint64) error {
	first, err := subjects.FirstAtHand(ctx, log, from, end)
	if err != nil {
		return err
	}
	if first == from { // archived and at hand since it was read
		return nil
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	p.next = max(p.next, first)
	p.index.Skip(first)
	return nil
}

// Covers reports whether everything before a record is known that can be had, and from which record on.
func (p *Past) Covers(seq uint64) (first uint64, covered bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.index == nil || p.index.Next() < seq {
		return 0, false
	}
	return p.index.First(), true
}

// Progress is the record that it has come to; 0 if nothing is read yet.
func (p *Past) Progress() uint64 {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.index == nil {
		return 0
	}
	return min(p.next, p.index.Next()) - 1
}

// Find returns sequences as subjects.Index.Find does; none before anything is read.
func (p *Past) Find(groups [][]string, below uint64, limit int) (seqs []uint64, more bool) {
	p.mu.Lock()
	index := p.index
	p.mu.Unlock()
	if index == nil {
		return nil, false
	}
	return index.Find(groups, below, limit)
}

// Reached is closed once the end of the log is reached for the first time.
func (p *Past) Reached() <-chan struct{} { return p.reachedEnd }

// History of the whole log; nil until the end of the log is reached for the first time.
func (p *Past) History() *history.History {
	p.mu.Lock()
	defer p.mu.Unlock()
	if !p.whole {
		return nil
	}
	return p.history
}
