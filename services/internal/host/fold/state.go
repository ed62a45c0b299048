package fold

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"github.com/cenkalti/backoff/v4"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/rs/zerolog"
	"golang.org/x/sync/errgroup"

	"millwright/events"
	"millwright/planner/ledger"
	"millwright/planner/world"
	"millwright/store"
)

// ErrStandDown is wrapped by State.Failed when this version cannot continue with the log or stream it is
// given: an unknown kind, a corrupt record, the log of another cluster. It needs a person or another version.
var ErrStandDown = errors.New("standing down")

// StateConfig is what a State folds.
type StateConfig struct {
	Log store.Log
	// Stream may be nil: then there is no World, or Follow names one.
	Stream events.Stream
	// Usage says how full the log's database is; nil: that is not checked.
	Usage func(ctx context.Context) (store.Usage, error)
	// Candidates returns who leads or stands by in the cluster; nil: only this process.
	Candidates func(ctx context.Context) ([]store.Leader, error)
	// Clock of the process; time.Now if nil.
	Clock func() time.Time
	// Reliable returns why the clock cannot be relied on; nil while it can. A nil function: it always can.
	Reliable   func() error
	Logger     zerolog.Logger
	Registerer prometheus.Registerer
}

// State is the World and the Ledger of a process, shared by its services.
type State struct {
	Log    store.Log
	Writes Writes
	stream events.Stream
	usage  func(ctx context.Context) (store.Usage, error)
	clock  func() time.Time
	// reliable says why clock cannot be relied on; see clock.go.
	reliable func() error
	logger   zerolog.Logger
	metrics  *stateMetrics

	world  live[*world.World]
	ledger live[*ledger.Ledger]

	// mu guards the fields below up to headRead. Whoever holds it takes no other lock.
	mu     sync.Mutex
	failed error
	// broken is closed when failed is set.
	broken chan struct{}
	// head is the log's when folding began; the Ledger is caught up once it is folded.
	head     uint64
	headRead bool

	// distrusted: the World differs from what the watcher published, or misses some of it; restarted is when
	// it was last folded again because of that. Only the goroutine that folds the stream uses them.
	distrusted bool
	restarted  time.Time

	control    control
	signals    Signals
	folded     waiters
	early      early
	Candidates func(ctx context.Context) ([]store.Leader, error)
	// Others are the candidates as last seen; nil if never.
	Others atomic.Pointer[[]store.Leader]
	// probed is the bus that is probed; bus is when it last answered.
	probed  events.Stream
	bus     silence
	refuted atomic.Pointer[[]uint64]
	// unsynced is since when the World is not whole, Unix nanoseconds; 0 while it is.
	unsynced atomic.Int64
	// crowded: the database is so full that new records omit explanations.
	crowded atomic.Bool
}

// NewState returns a State that has folded nothing yet; Run folds.
func NewState(cfg StateConfig) *State {
	if cfg.Clock == nil {
		cfg.Clock = time.Now
	}
	if cfg.Reliable == nil {
		cfg.Reliable = func() error { return nil }
	}
	s := &State{
		Log: cfg.Log, stream: cfg.Stream, usage: cfg.Usage, Candidates: cfg.Candidates, clock: cfg.Clock, reliable: cfg.Reliable, logger: cfg.Logger,
		broken: make(chan struct{}),
	}
	s.unsynced.Store(s.clock().UnixNano())
	s.world.folded, s.ledger.folded = world.New(), ledger.New(cfg.Log.ID())
	s.metrics = newStateMetrics(cfg.Registerer, s)
	return s
}

// Follow makes Run fold the stream. It must be called before Run.
func (s *State) Follow(stream events.Stream) { s.stream = stream }

// CatchUp folds the log as it is now, before Run: whoever opens the stream must know what was folded of it.
// It begins with the newest checkpoint of the Ledger, if there is one. What fails for the moment, as while
// etcd changes its leader, is tried again for up to a minute.
func (s *State) CatchUp(ctx context.Context) error {
	b := backoff.NewExponentialBackOff(backoff.WithMaxElapsedTime(catchUpPatience), backoff.WithMaxInterval(retryIntervalMax))
	return backoff.RetryNotify(func() error {
		err := s.catchUp(ctx)
		if isHopeless(err) {
			return backoff.Permanent(err)
		}
		return err
	}, backoff.WithContext(b, ctx), func(err error, pause time.Duration) {
		s.logger.Warn().Err(err).Dur("retry_in", pause).Msg("cannot read the log yet")
	})
}

func (s *State) catchUp(ctx context.Context) error {
	if err := s.readHead(ctx); err != nil {
		return err
	}
	if err := s.restoreLedger(ctx); err != nil {
		return fmt.Errorf("catch up with the log: %w", err)
	}
	for s.ledgerSeq() < s.head {
		records, err := s.Log.Read(ctx, s.ledgerSeq()+1, catchUpBatch)
		if err != nil {
			return fmt.Errorf("catch up with the log: %w", err)
		}
		if len(records) == 0 {
			return fmt.Errorf("catch up with the log: it ends at %d before its head %d", s.ledgerSeq(), s.head)
		}
		for _, rec := range records {
			if err := s.foldRecord(rec); err != nil {
				return fmt.Errorf("catch up with the log: %w", err)
			}
		}
	}
	return nil
}

const (
	catchUpBatch    = 500
	catchUpPatience = time.Minute
)

// Run folds log and stream until ctx ends. It retries what fails; after an error that retrying cannot fix it
// folds no further, and Failed says why.
func (s *State) Run(ctx context.Context) error {
	g, ctx := errgroup.WithContext(ctx)
	g.Go(func() error { return s.foldLog(ctx) })
	g.Go(func() error { return s.foldStream(ctx) })
	g.Go(func() error { return s.watchControl(ctx) })
	g.Go(func() error { return s.watchUsage(ctx) })
	if s.Candidates != nil {
		g.Go(func() error { return s.watchKinds(ctx) })
	}
	g.Go(func() error { return s.watchBus(ctx) })
	g.Go(func() error { return s.watchRecordsOfNodes(ctx) })
	return g.Wait()
}

// Failed is nil, or wraps ErrStandDown with the reason.
func (s *State) Failed() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.failed
}

// Ready returns nil once the log, as it was at start, and one complete resync are folded.
func (s *State) Ready() error {
	folded := s.ledgerSeq()
	s.mu.Lock()
	defer s.mu.Unlock()
	switch {
	case s.failed != nil:
		return s.failed
	case !s.headRead || folded < s.head:
		return fmt.Errorf("log is folded up to %d of %d", folded, s.head)
	}
	return nil
}

// Subscribe returns a channel that gets a value after changes of World or Ledger; changes while a value is
// waiting there are merged into it. cancel ends the subscription.
func (s *State) Subscribe() (changed <-chan struct{}, cancel func()) { return s.signals.Subscribe() }

func (s *State) fail(err error) {
	s.mu.Lock()
	if s.failed == nil {
		s.failed = err
		close(s.broken)
		s.logger.Error().Err(err).Msg("standing down")
	}
	s.mu.Unlock()
	s.signals.Broadcast()
}

// Versions returns immutable versions of World and Ledger at one moment; or why there are none.
func (s *State) Versions() (*world.World, *ledger.Ledger, error) {
	if err := s.Failed(); err != nil {
		return nil, nil, err
	}
	s.world.mu.Lock()
	defer s.world.mu.Unlock()
	return s.world.folded.Version(), s.ledger.version(), nil
}

// WaitFolded blocks until the Ledger is at seq or later, or will never be.
func (s *State) WaitFolded(ctx context.Context, seq uint64) error {
	reached := s.folded.untilFolded(seq, s.ledgerSeq)
	select {
	case <-reached:
		return nil
	case <-s.broken:
		return fmt.Errorf("wait until record %d is folded: %w", seq, s.Failed())
	case <-ctx.Done():
		return fmt.Errorf("wait until record %d is folded: %w", seq, ctx.Err())
	}
}
