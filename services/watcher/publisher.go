package watcher

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"k8s.io/apimachinery/pkg/types"

	"millwright/events"
)

// epoch that runs.
type epoch struct {
	w           *Watcher
	incarnation string
	publisher   *publisher
	synced      atomic.Bool
	// torn counts heartbeats in a row at which the World was torn.
	torn int
	// summed is when a heartbeat last carried sums.
	summed time.Time
}

// publisher gives changes their place in one epoch. After its first error it accepts nothing more and cancels
// the epoch.
type publisher struct {
	w      *Watcher
	ctx    context.Context
	cancel context.CancelCauseFunc
	epoch  uint64

	mu      sync.Mutex
	counter uint64
	sums    map[string]events.Sum
	failed  error
}

var _ Sink = (*publisher)(nil)

func newPublisher(ctx context.Context, w *Watcher, epoch uint64, cancel context.CancelCauseFunc) *publisher {
	return &publisher{w: w, ctx: ctx, cancel: cancel, epoch: epoch, sums: map[string]events.Sum{}}
}

// Publish implements Sink.
func (p *publisher) Publish(c Change) error {
	p.mu.Lock()
	defer p.mu.Unlock()
	err := p.publish(events.Observation{
		Kind: c.Kind, Op: c.Op, UID: types.UID(c.UID), Name: c.Name, ResourceVersion: c.ResourceVersion, Object: c.Object,
	})
	if err == nil && !slices.Contains(events.AWSKinds(), c.Kind) {
		p.sums[c.Kind.String()] = c.Sum
	}
	return err
}

func (p *publisher) publishMark(op events.Op, object any) error {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.publish(events.Observation{Op: op, Object: object})
}

// heartbeat carries the sums of all kinds, if asked to, as of its own place in the stream.
func (p *publisher) heartbeat(at time.Time, progress map[string]string, withSums bool) error {
	p.mu.Lock()
	defer p.mu.Unlock()
	h := &events.Heartbeat{Progress: progress}
	if withSums {
		h.Sums = p.sums
	}
	return p.publish(events.Observation{Op: events.OpHeartbeat, ObservedAt: at, Object: h})
}

func (p *publisher) published() uint64 {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.counter
}

// errEncoding: an object has no encoding, or none that could be read. It is not published, or by name alone,
// and nothing else suffers.
var errEncoding = errors.New("object cannot be encoded")

// publish is called with mu held.
func (p *publisher) publish(o events.Observation) error {
	if err := p.usable(); err != nil {
		return err
	}
	err := p.send(o)
	aws := slices.Contains(events.AWSKinds(), o.Kind)
	if aws && errors.Is(err, errEncoding) && !errors.Is(err, events.ErrTooLarge) {
		p.w.metrics.unreadable.WithLabelValues(o.Kind.String()).Inc()
		p.w.cfg.Logger.Error().Err(err).Str("kind", o.Kind.String()).Str("name", o.Name).Msg("object cannot be published")
		return err
	}
	if errors.Is(err, events.ErrTooLarge) || errors.Is(err, errEncoding) && o.Kind != events.KindNone {
		p.w.metrics.unreadable.WithLabelValues(o.Kind.String()).Inc()
		p.w.cfg.Logger.Warn().Err(err).Str("kind", o.Kind.String()).Str("name", o.Name).Msg("object cannot be published, but for its name")
		o.Op, o.Object = events.OpUnreadable, nil
		err = p.send(o)
	}
	if err != nil {
		return p.fail(fmt.Errorf("publish %s %s: %w", o.Kind, o.Name, err))
	}
	return nil
}

// usable: a context that has ended is noticed here too, for a reflector that is still at work.
func (p *publisher) usable() error {
	if p.failed != nil {
		return p.failed
	}
	return context.Cause(p.ctx)
}

func (p *publisher) fail(err error) error {
	p.failed = err
	p.cancel(err)
	return err
}

// send gives the observation the next counter, which counts only if the bus accepts it.
func (p *publisher) send(o events.Observation) error {
	o.Epoch, o.Counter = p.epoch, p.counter+1
	if o.ObservedAt.IsZero() {
		o.ObservedAt = p.w.cfg.Clock()
	}
	data, err := events.Encode(o)
	if err != nil {
		return fmt.Errorf("%w: %w", errEncoding, err)
	}
	err = p.w.cfg.Stream.Publish(p.ctx, data)
	for errors.Is(err, events.ErrFull) {
		if err := p.w.flush(p.ctx); err != nil {
			return err
		}
		err = p.w.cfg.Stream.Publish(p.ctx, data)
	}
	if err != nil {
		return err
	}
	p.counter++
	p.w.metrics.published.WithLabelValues(o.Kind.String(), o.Op.String()).Inc()
	return nil
}

// flush waits until what was published is stored. Publishing waits meanwhile: otherwise, on a busy stream,
// there might never be a moment at which nothing is in flight.
func (p *publisher) flush(ctx context.Context) error {
	p.mu.Lock()
	defer p.mu.Unlock()
	if err := p.usable(); err != nil {
		return err
	}
	p.w.metrics.observeQueue(p.w.cfg.Stream)
	if err := p.w.flush(ctx); err != nil {
		return p.fail(fmt.Errorf("flush: %w", err))
	}
	return nil
}
