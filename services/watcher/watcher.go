package watcher

import (
	"context"
	"errors"
	"fmt"
	"sync/atomic"
	"time"

	"github.com/cenkalti/backoff/v4"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/rs/zerolog"
	"golang.org/x/sync/errgroup"

	"millwright/events"
	"millwright/services/internal/clock"
)

// Config of a Watcher. Stream and Kube are required.
type Config struct {
	Stream events.Stream
	Kube   Kube
	// AWS builds the half that polls EC2; nil: there is none.
	AWS func(Emitter) (AWS, error)
	// World supplies the World for checkpoints; nil: the watcher folds the stream itself. A process that
	// folds it anyway passes its own.
	World WorldSource
	// LogID (hex) is mixed into epochs.
	LogID string

	// HeartbeatEvery, default 1 s.
	HeartbeatEvery time.Duration
	// FlushTimeout is how long the bus may take to acknowledge before the epoch is given up; default 10 s.
	FlushTimeout time.Duration
	// AWSWait bounds how long the first resync waits for the first poll of EC2; default 30 s.
	AWSWait time.Duration
	// CheckpointEvery and CheckpointMessages: a World is stored when that much time has passed or that many
	// messages were folded since the last; defaults 10 min and 100,000.
	CheckpointEvery    time.Duration
	CheckpointMessages uint64

	// Clock of the process; time.Now if nil.
	Clock      func() time.Time
	Logger     zerolog.Logger
	Registerer prometheus.Registerer
}

// Watcher publishes. It is active while Run runs: run it only while leading.
type Watcher struct {
	cfg     Config
	aws     AWS
	memory  *memory
	metrics *metrics
	// world is Config.World or own.
	world WorldSource
	own   *fold
	// inherited is where the stream ended when the process began; nil as long as that is not known.
	inherited atomic.Pointer[events.StreamState]
	// first is the first sequence that the stream retains, as of the last heartbeat.
	first atomic.Uint64
	// repaired is when an epoch was last started because the World was torn.
	repaired time.Time
}

var _ Emitter = (*Watcher)(nil)

// New returns a Watcher that has not started.
func New(cfg Config) (*Watcher, error) {
	if cfg.Stream == nil || cfg.Kube == nil {
		return nil, errors.New("new watcher: stream and kube are required")
	}
	setDefault(&cfg.HeartbeatEvery, time.Second)
	setDefault(&cfg.FlushTimeout, 10*time.Second)
	setDefault(&cfg.AWSWait, 30*time.Second)
	setDefault(&cfg.CheckpointEvery, 10*time.Minute)
	setDefault(&cfg.CheckpointMessages, 100_000)
	if cfg.Clock == nil {
		cfg.Clock = time.Now
	}
	w := &Watcher{cfg: cfg, memory: newMemory(cfg.Clock), metrics: newMetrics(cfg.Registerer)}
	if w.world = cfg.World; w.world == nil {
		w.own = newFold(w)
		w.world = w.own
	}
	if cfg.AWS != nil {
		aws, err := cfg.AWS(w)
		if err != nil {
			return nil, fmt.Errorf("new watcher: %w", err)
		}
		w.aws = aws
	}
	return w, nil
}

func setDefault[T comparable](value *T, to T) {
	var zero T
	if *value == zero {
		*value = to
	}
}

// Run publishes epochs, one after another as they fail, until ctx ends.
func (w *Watcher) Run(ctx context.Context) error {
	g, ctx := errgroup.WithContext(ctx)
	g.Go(func() error { return w.runEpochs(ctx) })
	g.Go(func() error { return newCheckpoints(w).run(ctx) })
	if w.own != nil {
		g.Go(func() error { return w.own.run(ctx) })
	}
	if w.aws != nil {
		g.Go(func() error { return w.inherit(ctx) })
		g.Go(func() error { return w.runAWS(ctx) })
	}
	err := g.Wait()
	if ctx.Err() != nil && errors.Is(err, context.Canceled) {
		return nil
	}
	return err
}

// runAWS restarts the AWS half if it fails.
func (w *Watcher) runAWS(ctx context.Context) error {
	return w.retry(ctx, "poll aws", func() (bool, error) { return false, w.aws.Run(ctx) })
}

func (w *Watcher) runEpochs(ctx context.Context) error {
	return w.retry(ctx, "publish", func() (bool, error) { return w.runEpoch(ctx) })
}

// retry calls f until ctx ends, with backoff between failures. f reports whether it got far enough to reset
// the backoff.
func (w *Watcher) retry(ctx context.Context, what string, f func() (bool, error)) error {
	b := backoff.NewExponentialBackOff(
		backoff.WithInitialInterval(50*time.Millisecond), backoff.WithMaxInterval(10*time.Second), backoff.WithMaxElapsedTime(0))
	for {
		progress, err := f()
		if ctx.Err() != nil {
			return ctx.Err()
		}
		if progress {
			b.Reset()
		}
		wait := b.NextBackOff()
		w.cfg.Logger.Warn().Err(err).Str("task", what).Dur("retry_in", wait).Msg("watcher task ended")
		if err := clock.Sleep(ctx, wait); err != nil {
			return err
		}
	}
}
