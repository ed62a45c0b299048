package host

import (
	"context"
	"errors"
	"sync"
	"time"

	"github.com/rs/zerolog"

	"millwright/planner/ledger"
	"millwright/services/internal/service"
	"millwright/store"
)

// leaseMargin is how long before the lease surely stands no more creating effects are ended.
const leaseMargin = 300 * time.Millisecond

// Effect runs fn in the pool; see service.Host.
func (h *Host) Effect(key string, creating bool, timeout time.Duration, fn func(ctx context.Context) error) bool {
	t := h.leading()
	if h.state.reliable() != nil {
		return false
	}
	if t == nil || h.mode != ledger.ModeActive || !h.mayAct() || creating && (t.caring() || h.Stop() == ledger.StopAll) {
		return false
	}
	return h.pool.start(key, func() error {
		ctx, cancel := context.WithTimeoutCause(t.ctx, timeout, errEffectTimeout)
		defer cancel()
		if creating {
			var release func()
			ctx, release = withinLease(ctx, h.deadlineOf(t))
			defer release()
		}
		return classified(ctx, fn(ctx))
	})
}

var errEffectTimeout = errors.New("effect timed out")

// classified tells an effect that was out of time from one that was called off.
func classified(ctx context.Context, err error) error {
	if err == nil || ctx.Err() == nil {
		return err
	}
	return errors.Join(context.Cause(ctx), err)
}

// deadlineOf is when the leadership or the right to act surely stands no more, unless prolonged.
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

// withinLease returns a context that ends shortly before the deadline, which may move meanwhile.
func withinLease(ctx context.Context, deadline func() time.Time) (context.Context, func()) {
	ctx, cancel := context.WithCancelCause(ctx)
	stop := make(chan struct{})
	go func() {
		for {
			left := time.Until(deadline()) - leaseMargin
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

// pool runs effects, one per key and a bounded number at a time.
type pool struct {
	max     int
	metrics *metrics
	logger  zerolog.Logger
	ended   func()

	group sync.WaitGroup

	mu       sync.Mutex
	running  map[string]bool
	draining bool
}

func newPool(max int, m *metrics, logger zerolog.Logger, ended func()) *pool {
	return &pool{max: max, metrics: m, logger: logger, ended: ended, running: map[string]bool{}}
}

// start runs fn unless the key is running, or the pool is full or being drained.
func (p *pool) start(key string, fn func() error) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.draining || p.running[key] || len(p.running) >= p.max {
		return false
	}
	p.running[key] = true
	p.metrics.effectsRunning.Set(float64(len(p.running)))
	p.group.Go(func() {
		p.finish(key, fn())
	})
	return true
}

// attend runs fn beside the effects; drain waits for it too.
func (p *pool) attend(fn func()) { p.group.Go(fn) }

func (p *pool) finish(key string, err error) {
	p.mu.Lock()
	delete(p.running, key)
	p.metrics.effectsRunning.Set(float64(len(p.running)))
	p.mu.Unlock()
	outcome := effectOutcome(err)
	p.metrics.effects.WithLabelValues(outcome).Inc()
	if err != nil && outcome != "stopped" {
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
	case errors.Is(err, errEffectTimeout):
		return "timeout"
	case errors.Is(err, context.Canceled), errors.Is(err, store.ErrFenced):
		return "cancelled"
	}
	return "failed"
}

// drain waits for what runs, and starts nothing meanwhile.
func (p *pool) drain() {
	p.refuse(true)
	p.group.Wait()
	p.refuse(false)
}

func (p *pool) refuse(draining bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.draining = draining
}
