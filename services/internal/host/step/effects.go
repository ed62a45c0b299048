package step

import (
	"context"
	"errors"
	"fmt"
	"runtime/debug"
	"sync"
	"time"

	"github.com/rs/zerolog"

	"millwright/planner/ledger"
	"millwright/services/internal/lane"
	"millwright/services/internal/service"
	"millwright/store"
)

// leaseMargin is how long before the certain end of the lease fenced effects are ended.
const leaseMargin = 300 * time.Millisecond

// Effect runs fn in its lane; see service.Host.
func (h *Host) Effect(key string, l lane.Lane, timeout time.Duration, fn func(ctx context.Context) error) bool {
	t := h.leading()
	if t == nil || h.mode != ledger.ModeActive || !h.mayStart(t, l) {
		return false
	}
	return h.pool.start(key, l, func() error {
		if !h.mayStart(t, l) { // may no longer: it may have waited
			return fmt.Errorf("start effect %s: %w", key, service.ErrStopped)
		}
		ctx, cancel := context.WithTimeoutCause(t.ctx, timeout, errEffectTimeout)
		defer cancel()
		if l.Fenced() {
			var release func()
			ctx, release = withinLease(ctx, h.deadlineOf(t))
			defer release()
		}
		return classified(ctx, fn(ctx))
	})
}

// mayStart reports that nothing but lack of room keeps an effect from being started.
func (h *Host) mayStart(t *term, l lane.Lane) bool {
	return h.state.ClockFault() == nil && h.mayAct() && !(l.Fenced() && t.degraded()) && !(l.Creates() && h.Stop() == ledger.StopAll)
}

var errEffectTimeout = errors.New("effect timed out")

// classified distinguishes an effect that timed out from one that was cancelled.
func classified(ctx context.Context, err error) error {
	if err == nil || ctx.Err() == nil {
		return err
	}
	return errors.Join(context.Cause(ctx), err)
}

// deadlineOf is the time until which the leadership or the right to act is certain, unless prolonged.
func (h *Host) deadlineOf(t *term) func() time.Time {
	return func() time.Time {
		leads := t.lead.Deadline()
		if h.until == nil {
			return leads
		}
		if acts := h.until(); acts.Before(leads) {
			return acts
		}
		return leads
	}
}

// withinLease returns a context that ends shortly before the deadline, which may move in the meantime. It has
// ended already if the deadline has passed: a process that was frozen for longer than its lease may be the
// last to know.
func withinLease(ctx context.Context, deadline func() time.Time) (context.Context, func()) {
	ctx, cancel := context.WithCancelCause(ctx)
	stop := make(chan struct{})
	left := time.Until(deadline()) - leaseMargin
	if left <= 0 {
		cancel(store.ErrFenced)
		return ctx, func() {}
	}
	go func() {
		for ; ; left = time.Until(deadline()) - leaseMargin {
			if left <= 0 {
				cancel(store.ErrFenced)
				return
			}
			timer := time.NewTimer(left)
			select {
			case <-timer.C:
			case <-stop:
				timer.Stop()
				return
			}
		}
	}()
	return ctx, func() {
		close(stop)
		cancel(context.Canceled)
	}
}

// pool runs effects, one per key, each in its lane.
type pool struct {
	metrics *metrics
	logger  zerolog.Logger
	ended   func()

	group sync.WaitGroup

	mu    sync.Mutex
	queue *lane.Queue[func() error]
	lanes *lanes
}

func newPool(max int, m *metrics, logger zerolog.Logger, ended func()) *pool {
	p := &pool{metrics: m, logger: logger, ended: ended, queue: lane.NewQueue[func() error](max)}
	p.lanes = newLanes(func(l lane.Lane) *queueMetrics {
		return newQueueMetrics(m.registerer, queueName(m.service, l), func() (int, time.Duration, time.Duration) {
			p.mu.Lock()
			defer p.mu.Unlock()
			_, waiting := p.queue.Load(l)
			together, longest := p.lanes.unfinished(l)
			return waiting, together, longest
		})
	})
	p.mu.Lock() // the metrics may be asked for already
	defer p.mu.Unlock()
	for l := range queueNames[m.service] {
		p.lanes.queue(l)
	}
	return p
}

// start runs fn now or in its turn, unless the key is taken, too many wait or the pool is being drained.
func (p *pool) start(key string, l lane.Lane, fn func() error) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	start, taken := p.queue.Offer(l, key, fn)
	if taken {
		p.lanes.offer(key, l)
	}
	if start {
		p.run(key, l, fn)
	}
	p.measure(l)
	return taken
}

// run starts fn. The caller holds the lock.
func (p *pool) run(key string, l lane.Lane, fn func() error) {
	p.lanes.begin(key, l)
	p.group.Go(func() { p.finish(key, l, p.guarded(key, fn)) })
}

// panicPause is how long the key of an effect that panicked stays taken: its owner, who does not know, would
// start it again at once.
const panicPause = 5 * time.Second

// guarded runs an effect. A panic is a failed effect: what one object leads to must not end the services of
// the process, nor drains and launches that are under way.
func (p *pool) guarded(key string, fn func() error) (err error) {
	defer func() {
		if cause := recover(); cause != nil {
			err = fmt.Errorf("panic: %v", cause)
			p.logger.Error().Err(err).Str("effect", key).Str("stack", string(debug.Stack())).Msg("an effect panicked: please report this")
			time.Sleep(panicPause)
		}
	}()
	return fn()
}

// measure publishes how full a lane is. The caller holds the lock.
func (p *pool) measure(l lane.Lane) {
	running, waiting := p.queue.Load(l)
	p.metrics.effectsRunning.WithLabelValues(string(l)).Set(float64(running))
	p.metrics.effectsWaiting.WithLabelValues(string(l)).Set(float64(waiting))
}

// attend runs fn beside the effects; drain waits for it too.
func (p *pool) attend(fn func()) { p.group.Go(fn) }

// finish makes room for the next one that waits.
func (p *pool) finish(key string, l lane.Lane, err error) {
	outcome := effectOutcome(err)
	p.mu.Lock()
	p.lanes.end(key, outcome == "failed" || outcome == "timeout")
	if next, fn, ok := p.queue.End(key); ok {
		p.run(next, l, fn)
	}
	p.measure(l)
	p.mu.Unlock()
	p.metrics.effects.WithLabelValues(outcome).Inc()
	switch outcome {
	case "done", "stopped":
	case "not_ready":
		p.logger.Debug().Err(err).Str("effect", key).Msg("effect put off")
	default:
		p.logger.Warn().Err(err).Str("effect", key).Msg("effect failed, will be tried again")
	}
	p.ended()
}

func effectOutcome(err error) string {
	switch {
	case err == nil:
		return "done"
	case errors.Is(err, service.ErrStopped):
		return "stopped"
	case errors.Is(err, service.ErrNotReady): // such as a record of its own that is not folded yet; nothing failed
		return "not_ready"
	case errors.Is(err, errEffectTimeout):
		return "timeout"
	case errors.Is(err, context.Canceled), errors.Is(err, store.ErrFenced):
		return "cancelled"
	}
	return "failed"
}

// drain waits for what runs, drops what waits, and starts nothing in the meantime.
func (p *pool) drain() {
	p.refuse(true)
	p.group.Wait()
	p.refuse(false)
}

func (p *pool) refuse(draining bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.queue.Refuse(draining)
	if draining {
		p.lanes.drop()
	}
}
