package export

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/cenkalti/backoff/v4"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/rs/zerolog"

	"millwright/services/internal/clock"
	"millwright/store"
)

// Config of an Exporter.
type Config struct {
	Settings Settings
	Cluster  string
	Version  string
	// Log is read, with its archive if there is one. Live, the log without it, tells of new records.
	Log, Live store.Log
	Cursors   store.Cursors
	Now       func() time.Time
	Logger    zerolog.Logger
	// Registerer of its metrics.
	Registerer prometheus.Registerer
}

// Exporter exports while it leads.
type Exporter struct {
	cfg     Config
	metrics *metrics
	feeds   []*feed
}

// sink takes what is sent for records.
type sink interface {
	// encode returns what is sent for a record, nil if nothing is. Records come in their order.
	encode(rec store.Record) (any, error)
	// send offers what was encoded, at most as much as atOnce says. A *refusal: it answered, and did not take
	// it. After any other error it may have been taken.
	send(ctx context.Context, bodies []any) error
	atOnce() int
	// open is the first record that what is to come depends on; 0: there is none. reset forgets it.
	open() uint64
	reset()
}

// refusal is the answer of a sink that did not take what it was offered.
type refusal struct {
	// status of HTTP, or "" if it has none; text is of the answer.
	status, text string
	// after is when it wants to be asked again; 0: it does not say.
	after time.Duration
}

func (r *refusal) Error() string { return "it answered " + r.status + ": " + r.text }

// New returns an Exporter. It has no side effects.
func New(cfg Config) *Exporter { return &Exporter{cfg: cfg, metrics: newMetrics(cfg.Registerer)} }

// Open reads the files that the settings name, and the OTEL_ variables. Lead does so too, and tries until it
// can.
func (e *Exporter) Open() error {
	var feeds []*feed
	for _, build := range []func(Config) (string, sink, error){newEvents, newWebhook, newTraces} {
		name, s, err := build(e.cfg)
		if err != nil {
			return fmt.Errorf("open sinks: %w", err)
		}
		if s != nil {
			feeds = append(feeds, &feed{name: name, sink: s, cfg: e.cfg, metrics: e.metrics, wake: make(chan struct{}, 1),
				logger: e.cfg.Logger.With().Str("sink", name).Logger()})
		}
	}
	e.feeds = feeds
	return nil
}

// Lead exports until ctx ends or the leadership is lost.
func (e *Exporter) Lead(ctx context.Context, l store.Leadership) error {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	var group sync.WaitGroup
	defer group.Wait()
	defer cancel(nil)
	group.Go(func() {
		select {
		case <-l.Done():
			cancel(store.ErrFenced)
		case <-ctx.Done():
		}
	})
	for retry := newRetry(); e.feeds == nil && ctx.Err() == nil; {
		if err := e.Open(); err != nil {
			wait := retry.NextBackOff()
			e.cfg.Logger.Error().Err(err).Dur("retry_in", wait).Msg("nothing is exported")
			_ = clock.Sleep(ctx, wait)
		} else if len(e.feeds) == 0 { // the OTEL_ variables want no traces
			<-ctx.Done()
		}
	}
	group.Go(func() { e.listen(ctx) })
	var feeds sync.WaitGroup
	for _, x := range e.feeds {
		feeds.Go(func() {
			if err := x.run(ctx, l.Lease()); errors.Is(err, store.ErrFenced) {
				cancel(err)
			}
		})
	}
	feeds.Wait()
	if cause := context.Cause(ctx); errors.Is(cause, store.ErrFenced) {
		return fmt.Errorf("export: %w", cause)
	}
	return nil
}

// retryMax bounds the pause between attempts, retryMin is the first one.
const (
	retryMin = 500 * time.Millisecond
	retryMax = time.Minute
)

func newRetry() *backoff.ExponentialBackOff {
	return backoff.NewExponentialBackOff(backoff.WithMaxElapsedTime(0), backoff.WithInitialInterval(retryMin), backoff.WithMaxInterval(retryMax))
}

// listen wakes the feeds whenever there is a new record. It holds none, so that a slow sink keeps nothing in
// memory; without it feeds look every idleEvery.
func (e *Exporter) listen(ctx context.Context) {
	retry := newRetry()
	for ctx.Err() == nil {
		head, err := e.cfg.Live.Head(ctx)
		if err == nil {
			err = e.cfg.Live.Watch(ctx, head.Seq+1, func(store.Record) error {
				retry.Reset()
				for _, x := range e.feeds {
					select {
					case x.wake <- struct{}{}:
					default:
					}
				}
				return nil
			})
		}
		if ctx.Err() == nil {
			e.cfg.Logger.Debug().Err(err).Msg("new records are not announced")
			_ = clock.Sleep(ctx, retry.NextBackOff())
		}
	}
}
