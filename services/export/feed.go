package export

import (
	"context"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"github.com/cenkalti/backoff/v4"
	"github.com/rs/zerolog"

	"millwright/services/internal/clock"
	"millwright/store"
	"millwright/store/audit/overview"
)

const (
	// windowMax bounds the records that wait for the sink in memory, pageRecords those that are read at a
	// time.
	windowMax   = 32
	pageRecords = 32
	// idleEvery is how often it is looked for new records that nobody announced, and whether the log still is
	// the one that was sent.
	idleEvery = 5 * time.Second
	// keepEvery is how often the cursor is kept while it moves, keepTimeout bounds that.
	keepEvery   = 5 * time.Second
	keepTimeout = 3 * time.Second
	// readTimeout bounds reading a page, from an archive too; headTimeout how much there is that cannot be
	// read.
	readTimeout = 6 * time.Minute
	headTimeout = 10 * time.Second
)

// errParted: the log does not go on from the record that was read last.
var errParted = errors.New("the log holds other records than those that were read: it was restored from a backup")

// feed is the way to one sink. It is for one goroutine.
type feed struct {
	name    string
	sink    sink
	cfg     Config
	metrics *metrics
	logger  zerolog.Logger
	wake    chan struct{}

	lease  store.Lease
	cursor cursor
	kept   time.Time
	// keptSeq is where the cursor stood then, unkept: keeping it failed last.
	keptSeq uint64
	unkept  bool
	// parted: the log was found to hold other records than those that were read.
	parted bool
	// read is the last record that was read, head the last one of the log that is known of.
	read place
	head uint64
	// stuckSince is when it began that what is next cannot be read, or if something waited already, when the
	// oldest of that was recorded; zero: it can be read.
	stuckSince time.Time
	// window are messages that wait, in order; those that were taken out of turn stay until theirs.
	window []message
	tries  trial
}

// message is what is sent for a record.
type message struct {
	seq  uint64
	at   time.Time
	body any
	// before is the record before, open what the sink depended on before this one.
	before place
	open   uint64
	taken  bool
}

// run sends until ctx ends. It returns ErrFenced if another one leads.
func (l *feed) run(ctx context.Context, lease store.Lease) error {
	l.lease = lease
	defer l.forget()
	l.metrics.expose(l.name)
	retry := newRetry()
	for ctx.Err() == nil {
		err := l.begin(ctx)
		for err == nil && ctx.Err() == nil {
			if err = l.round(ctx); err == nil {
				retry.Reset()
				l.stuckSince = time.Time{}
			}
		}
		switch {
		case errors.Is(err, store.ErrFenced):
			return err
		case ctx.Err() != nil:
		case errors.Is(err, errParted):
			l.parted = true
		default:
			wait := retry.NextBackOff()
			l.logger.Warn().Err(err).Dur("retry_in", wait).Msg("export interrupted")
			l.measureStuck(ctx)
			_ = clock.Sleep(ctx, wait)
		}
	}
	last, cancel := context.WithTimeout(context.WithoutCancel(ctx), keepTimeout)
	defer cancel()
	if err := l.keep(last, true); err != nil {
		return err
	}
	return nil
}

// forget: what waits is the next leader's affair, here and in what is measured.
func (l *feed) forget() {
	clear(l.window)
	l.window, l.stuckSince = nil, time.Time{}
	l.measure()
}

// begin reads how far it has come, and what is open there.
func (l *feed) begin(ctx context.Context) error {
	bounded, cancel := context.WithTimeout(ctx, readTimeout)
	defer cancel()
	text, err := l.cfg.Cursors.Cursor(bounded, l.name)
	if err != nil {
		return err
	}
	kept, err := parseCursor(text)
	if err != nil {
		return fmt.Errorf("%s: %w", l.name, err)
	}
	if text == "" && !l.unkept && l.cfg.Settings.From == FromNow {
		head, err := l.cfg.Log.Head(bounded)
		if err != nil {
			return err
		}
		kept.place = placeOf(head)
	}
	if l.cursor.Seq <= kept.Seq || !l.unkept { // else it is further than what could be kept
		l.cursor = kept
	}
	back, err := l.cursor.agreed(bounded, l.cfg.Log)
	if err != nil {
		return err
	}
	if back || l.parted {
		l.parted = false
		l.metrics.rewinds.WithLabelValues(l.name).Inc()
		l.logger.Warn().Uint64("revision", l.cursor.Seq).Msg("the log was restored: what follows this record is sent anew")
	}
	l.window, l.tries, l.keptSeq = nil, trial{}, 0
	l.sink.reset()
	l.read = l.cursor.place
	if l.cursor.From > 0 && l.cursor.From <= l.cursor.Seq {
		return l.reread(ctx)
	}
	return nil
}

// reread has the sink know what is open, without sending what was sent.
func (l *feed) reread(ctx context.Context) error {
	l.read = place{Seq: l.cursor.From - 1}
	for l.read.Seq < l.cursor.Seq && ctx.Err() == nil {
		before := l.read.Seq
		page, err := l.page(ctx, int(min(pageRecords, l.cursor.Seq-l.read.Seq)))
		if err != nil {
			return err
		}
		if l.read.Seq == before {
			return errParted
		}
		for _, rec := range page {
			_, _ = l.sink.encode(rec)
		}
	}
	return ctx.Err()
}

// round sends what there is to send, or waits for more.
func (l *feed) round(ctx context.Context) error {
	if err := l.fill(ctx); err != nil {
		return err
	}
	l.measure()
	if len(l.window) > 0 {
		l.attempt(ctx)
		l.measure()
		return l.keep(ctx, false)
	}
	l.cursor.advance(l.read)
	l.cursor.From = l.sink.open()
	if err := l.keep(ctx, false); err != nil {
		return err
	}
	idle := time.NewTimer(idleEvery)
	defer idle.Stop()
	select {
	case <-ctx.Done():
	case <-l.wake:
	case <-idle.C:
		return l.compare(ctx)
	}
	return nil
}

// compare finds out that the log is not the one that was read any more.
func (l *feed) compare(ctx context.Context) error {
	bounded, cancel := context.WithTimeout(ctx, readTimeout)
	defer cancel()
	head, err := l.cfg.Log.Head(bounded)
	if err != nil {
		return err
	}
	l.head = head.Seq
	if head.Seq < l.read.Seq || head.Seq == l.read.Seq && placeOf(head) != l.read {
		return errParted
	}
	return nil
}

// fill reads on, unless the window is full, until something waits in it or the log ends.
func (l *feed) fill(ctx context.Context) error {
	for len(l.window) < windowMax {
		page, err := l.page(ctx, min(pageRecords, windowMax-len(l.window)))
		if err != nil {
			return err
		}
		for _, rec := range page {
			open := l.sink.open()
			body, err := l.sink.encode(rec)
			if err != nil {
				l.dead(rec.Seq, err)
			}
			if err == nil && body != nil {
				l.window = append(l.window, message{seq: rec.Seq, at: rec.Time, body: body, open: open,
					before: place{rec.Seq - 1, hex.EncodeToString(rec.PrevHash[:])}})
			}
		}
		if len(page) == 0 {
			l.head = max(l.head, l.read.Seq)
			return nil
		}
		if len(l.window) > 0 {
			return nil
		}
		l.cursor.advance(l.read) // nothing of this is sent
		l.cursor.From = l.sink.open()
		if err := l.keep(ctx, false); err != nil {
			return err
		}
	}
	return nil
}

// page reads the next records, each of which follows the one before. Those that are nowhere any more are
// passed over, and counted.
func (l *feed) page(ctx context.Context, limit int) ([]store.Record, error) {
	bounded, cancel := context.WithTimeout(ctx, readTimeout)
	defer cancel()
	page, err := l.cfg.Log.Read(bounded, l.read.Seq+1, limit)
	if errors.Is(err, store.ErrCompacted) && len(page) == 0 {
		return nil, l.pass(bounded, err)
	}
	if err != nil && len(page) == 0 {
		return nil, fmt.Errorf("read log from record %d: %w", l.read.Seq+1, err)
	}
	for _, rec := range page {
		if l.read.Hash != "" && hex.EncodeToString(rec.PrevHash[:]) != l.read.Hash {
			return nil, errParted
		}
		l.read = placeOf(store.Head{Seq: rec.Seq, Hash: rec.Hash})
	}
	l.head = max(l.head, l.read.Seq)
	return page, nil
}

// pass goes on with the first record that there is.
func (l *feed) pass(ctx context.Context, why error) error {
	head, err := l.cfg.Log.Head(ctx)
	if err != nil {
		return err
	}
	first, err := overview.FirstLive(ctx, l.cfg.Log, l.read.Seq+1, head.Seq)
	if err != nil {
		return err
	}
	lost := first - l.read.Seq - 1
	l.metrics.skipped.WithLabelValues(l.name).Add(float64(lost))
	l.logger.Error().Err(why).Uint64("revision", l.read.Seq+1).Uint64("records", lost).Msg("records had left log and archive before they were sent")
	l.read = place{Seq: first - 1}
	return nil
}

// keep writes the cursor down, now and then or at once. That it cannot be written stops nothing but a leader
// that was replaced.
func (l *feed) keep(ctx context.Context, now bool) error {
	if l.cursor.Seq == l.keptSeq || !now && l.cfg.Now().Sub(l.kept).Abs() < keepEvery {
		return nil
	}
	l.kept = l.cfg.Now()
	l.cursor.At = l.kept.UTC()
	text, err := json.Marshal(l.cursor)
	if err != nil {
		return fmt.Errorf("encode cursor: %w", err)
	}
	bounded, cancel := context.WithTimeout(ctx, keepTimeout)
	defer cancel()
	err = l.cfg.Cursors.SetCursor(bounded, l.lease, l.name, string(text))
	if errors.Is(err, store.ErrFenced) {
		return err
	}
	l.unkept = err != nil
	if err != nil {
		l.metrics.cursorFailures.WithLabelValues(l.name).Inc()
		l.logger.Warn().Err(err).Uint64("revision", l.cursor.Seq).Msg("how far the export has come is not kept")
		return nil
	}
	l.keptSeq = l.cursor.Seq
	return nil
}

func (l *feed) measure() {
	lag, age := float64(0), float64(0)
	if len(l.window) > 0 {
		age = max(0, l.cfg.Now().Sub(l.window[0].at).Seconds())
	}
	if l.head > l.cursor.Seq && len(l.window) > 0 {
		lag = float64(l.head - l.cursor.Seq)
	}
	l.metrics.lagRecords.WithLabelValues(l.name).Set(lag)
	l.metrics.lagSeconds.WithLabelValues(l.name).Set(age)
}

// measureStuck measures what waits while it cannot be read: how old that is, nobody knows.
func (l *feed) measureStuck(ctx context.Context) {
	now := l.cfg.Now()
	if l.stuckSince.IsZero() {
		l.stuckSince = now
		if len(l.window) > 0 && l.window[0].at.Before(now) {
			l.stuckSince = l.window[0].at
		}
	}
	bounded, cancel := context.WithTimeout(ctx, headTimeout)
	defer cancel()
	if head, err := l.cfg.Live.Head(bounded); err == nil {
		l.head = head.Seq
	}
	if l.head > l.cursor.Seq {
		l.metrics.lagRecords.WithLabelValues(l.name).Set(float64(l.head - l.cursor.Seq))
		l.metrics.lagSeconds.WithLabelValues(l.name).Set(max(0, now.Sub(l.stuckSince).Seconds()))
	}
}

// dead gives a record up.
func (l *feed) dead(seq uint64, why error) {
	l.cursor.DeadLetters++
	l.metrics.deadLetters.WithLabelValues(l.name).Inc()
	l.logger.Error().Err(why).Uint64("revision", seq).Msg("record is not exported: millctl log has it")
}

// trial is what has been tried with the first message of the window.
type trial struct {
	retry *backoff.ExponentialBackOff
	// refused counts the refusals, single the messages that go one by one because together they were refused.
	refused, single int
}
