package process

import (
	"context"
	"errors"
	"fmt"
	"runtime/debug"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/cenkalti/backoff/v4"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/rs/zerolog"

	"millwright/services/internal/service"
	"millwright/store"
)

const (
	// pauseMax bounds the pause after a step, which is as long as the step took: a service never uses more
	// than half of a core, and a burst of changes is handled in one step.
	pauseMax = 50 * time.Millisecond
	// notReadyRetry is when a step without a valid Snapshot is repeated if nothing changes before.
	notReadyRetry = time.Second
	// stuckAfter is how long one step may take before /healthz says so.
	stuckAfter = 2 * time.Minute
)

// Leader is the part of step.Host that Steps needs.
type Leader interface {
	// Lead makes the host work under a leadership. led ends with it. release waits for running effects, ends
	// them when ctx does, and stands by.
	Lead(ctx context.Context, l store.Leadership) (led context.Context, release func(ctx context.Context), err error)
	Changes() (<-chan struct{}, func())
	// Failed is nil, or why the service cannot continue and must not lead.
	Failed() error
}

// Changes notifies of changes; fold.State and informers implement it.
type Changes interface {
	Subscribe() (<-chan struct{}, func())
}

// Steps is the loop that steps one service while it leads.
type Steps struct {
	service service.Service
	host    Leader
	sources []Changes
	beside  []func(context.Context)
	onLead  []func()
	// degraded is nil if the service does nothing without the log.
	degraded DegradedHost
	logger   zerolog.Logger
	metrics  stepMetrics
	// reconciles are the same by Karpenter's names.
	reconciles *reconcileMetrics
	// began is when the running step began, Unix nanoseconds; 0 between steps.
	began atomic.Int64
}

type stepMetrics struct {
	duration prometheus.Histogram
	outcomes *prometheus.CounterVec
}

// NewSteps returns the loop of a service, which steps on changes of any source.
func NewSteps(s service.Service, host Leader, logger zerolog.Logger, r prometheus.Registerer, sources ...Changes) *Steps {
	return &Steps{service: s, host: host, sources: sources, logger: logger, metrics: newStepMetrics(r, s.Name()),
		reconciles: newReconcileMetrics(r, service.Controller(s.Name()))}
}

// DegradedHost is the part of step.Host that a loop needs to carry on without the log. ok is false if the log
// answers.
type DegradedHost interface {
	DegradedTerm(ctx context.Context) (led context.Context, release func(ctx context.Context), ok bool)
}

// RunDegradedOn makes the loop continue while the log is unreachable; for services whose effects converge on
// what is recorded.
func (s *Steps) RunDegradedOn(h DegradedHost) { s.degraded = h }

// RunDegraded steps the service without leadership until the log answers or ctx ends.
func (s *Steps) RunDegraded(ctx context.Context) error {
	led, release, ok := s.degraded.DegradedTerm(ctx)
	if !ok {
		return nil
	}
	err := s.loop(ctx, led)
	s.released()
	drain, cancel := context.WithTimeout(context.Background(), DrainTimeout)
	defer cancel()
	release(drain)
	return err
}

// Unit makes the loop a part of a process.
func (s *Steps) Unit() Unit {
	u := Unit{Name: s.service.Name(), Lead: s.Lead, Failed: s.host.Failed}
	if s.degraded != nil {
		u.RunDegraded = s.RunDegraded
	}
	return u
}

// Check fails when a step takes so long that it must be hanging.
func (s *Steps) Check() Check {
	return Check{Name: s.service.Name(), Probe: func() error {
		began := s.began.Load()
		if began == 0 {
			return nil
		}
		if took := time.Since(time.Unix(0, began)); took > stuckAfter {
			return fmt.Errorf("a step has not ended for %s", took.Round(time.Second))
		}
		return nil
	}}
}

// Beside runs fn concurrently with the steps whenever the service leads. Its context ends when the steps do,
// and fn is waited for.
func (s *Steps) Beside(fn func(context.Context)) { s.beside = append(s.beside, fn) }

// OnLead calls fn whenever the service begins to lead, before its first step.
func (s *Steps) OnLead(fn func()) { s.onLead = append(s.onLead, fn) }

// Lead steps the service until ctx ends or the leadership is lost. Effects that run when ctx ends get
// DrainTimeout to end by themselves.
func (s *Steps) Lead(ctx context.Context, l store.Leadership) error {
	term, end := context.WithCancel(context.WithoutCancel(ctx))
	defer end()
	atWork := context.AfterFunc(ctx, end) // until it is at work, the service can be stopped at once
	led, release, err := s.host.Lead(term, l)
	atWork()
	if err != nil {
		return err
	}
	for _, fn := range s.onLead {
		fn()
	}
	endBeside := s.startBeside(led)
	err = s.loop(ctx, led)
	endBeside()
	s.released()
	drain, cancel := context.WithTimeout(context.Background(), DrainTimeout)
	defer cancel()
	release(drain)
	return err
}

// released tells the service that it does not lead any more.
func (s *Steps) released() {
	if r, ok := s.service.(service.Releaser); ok {
		r.Released()
	}
}

// startBeside returns a function that ends the functions beside the steps.
func (s *Steps) startBeside(ctx context.Context) (end func()) {
	ctx, cancel := context.WithCancel(ctx)
	var group sync.WaitGroup
	for _, fn := range s.beside {
		group.Go(func() { fn(ctx) })
	}
	return func() { cancel(); group.Wait() }
}

func (s *Steps) loop(ctx, led context.Context) error {
	changed, unsubscribe := s.subscribe()
	defer unsubscribe()
	retry := backoff.NewExponentialBackOff(backoff.WithMaxElapsedTime(0), backoff.WithInitialInterval(50*time.Millisecond),
		backoff.WithMaxInterval(10*time.Second))
	timer := time.NewTimer(0)
	defer timer.Stop()
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-led.Done():
			return context.Cause(led)
		case <-changed:
		case <-timer.C:
		}
		next, took, failed := s.step(led, retry)
		if err := s.host.Failed(); err != nil {
			return err
		}
		pause := min(took, pauseMax)
		if failed {
			pause = next // changes do not shorten a backoff
		}
		if !sleepBoth(ctx, led, pause) {
			continue
		}
		timer.Stop()
		if next > 0 {
			timer.Reset(max(0, next-pause))
		}
	}
}

// subscribe merges the changes of all sources into one channel.
func (s *Steps) subscribe() (<-chan struct{}, func()) {
	joined, stop := make(chan struct{}, 1), make(chan struct{})
	var group sync.WaitGroup
	for _, source := range append(slices.Clone(s.sources), hostChanges{s.host}) {
		ch, cancel := source.Subscribe()
		group.Go(func() {
			defer cancel()
			for {
				select {
				case <-ch:
					wake(joined)
				case <-stop:
					return
				}
			}
		})
	}
	return joined, func() { close(stop); group.Wait() }
}

type hostChanges struct{ host Leader }

func (h hostChanges) Subscribe() (<-chan struct{}, func()) { return h.host.Changes() }

func wake(ch chan<- struct{}) {
	select {
	case ch <- struct{}{}:
	default:
	}
}

// step returns when to step next if nothing changes, 0 for never.
func (s *Steps) step(ctx context.Context, retry *backoff.ExponentialBackOff) (next, took time.Duration, failed bool) {
	began := time.Now()
	s.began.Store(began.UnixNano())
	s.reconciles.begin()
	next, err := s.stepOnce(ctx)
	s.began.Store(0)
	took = time.Since(began)
	s.metrics.duration.Observe(took.Seconds())
	s.reconciles.end(resultOf(next, err), took)
	switch {
	case err == nil:
		retry.Reset()
		s.metrics.outcomes.WithLabelValues("done").Inc()
		return next, took, false
	case errors.Is(err, service.ErrNotReady):
		s.metrics.outcomes.WithLabelValues("not_ready").Inc()
		s.logger.Debug().Err(err).Msg("not ready")
		return notReadyRetry, took, false
	}
	s.metrics.outcomes.WithLabelValues("failed").Inc()
	next = retry.NextBackOff()
	if ctx.Err() == nil {
		s.logger.Warn().Err(err).Dur("retry_in", next).Msg("step failed")
	}
	return next, took, true
}

// resultOf a step, as a controller of Karpenter would say it.
func resultOf(next time.Duration, err error) string {
	switch {
	case errors.Is(err, service.ErrNotReady):
		return resultRequeue
	case err != nil:
		return resultError
	case next > 0:
		return resultRequeueAfter
	}
	return resultSuccess
}

// stepOnce steps the service. A panic is a failed step: what one service cannot plan must not end the others
// of its process, nor drains and launches that are under way.
func (s *Steps) stepOnce(ctx context.Context) (next time.Duration, err error) {
	defer func() {
		if p := recover(); p != nil {
			next, err = 0, fmt.Errorf("panic: %v", p)
			s.reconciles.panics.Inc()
			s.logger.Error().Err(err).Str("stack", string(debug.Stack())).Msg("a step panicked: please report this")
		}
	}()
	return s.service.Step(ctx)
}

// sleepBoth pauses; it reports false if either context ended first.
func sleepBoth(a, b context.Context, d time.Duration) bool {
	if d > 0 {
		t := time.NewTimer(d)
		defer t.Stop()
		select {
		case <-t.C:
		case <-a.Done():
		case <-b.Done():
		}
	}
	return a.Err() == nil && b.Err() == nil
}
