package natsbus

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"millwright/events"
)

// publisher sends without waiting and remembers what failed.
type publisher struct {
	cfg Config
	js  jetstream.JetStream
	// pendingBytes of publishes without acknowledgement.
	pendingBytes atomic.Int64
	// order makes the sequence of messages that of the calls.
	order   sync.Mutex
	subject string

	mu       sync.Mutex
	failed   error // the first since the last Flush
	failures int   // how many since then
}

// noRetry: a retried publish would overtake those behind it.
var noRetry = []jetstream.PublishOpt{jetstream.WithRetryAttempts(0)}

func (p *publisher) options() []jetstream.JetStreamOpt {
	return []jetstream.JetStreamOpt{
		jetstream.WithPublishAsyncMaxPending(p.cfg.PendingMax + 1),
		jetstream.WithPublishAsyncTimeout(p.cfg.AckTimeout),
		jetstream.WithPublishAsyncErrHandler(func(_ jetstream.JetStream, m *nats.Msg, err error) {
			p.pendingBytes.Add(-int64(len(m.Data)))
			p.fail(err)
		}),
		jetstream.WithPublishAsyncAckHandler(func(_ jetstream.JetStream, m *nats.Msg, _ *jetstream.PubAck) {
			p.pendingBytes.Add(-int64(len(m.Data)))
		}),
	}
}

func (p *publisher) setSubject(subject string) {
	p.order.Lock()
	defer p.order.Unlock()
	p.subject = subject
}

func (p *publisher) fail(err error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.failed == nil {
		p.failed = err
	}
	p.failures++
}

func (p *publisher) publish(data []byte) error {
	p.order.Lock()
	defer p.order.Unlock()
	n := int64(len(data))
	if p.js.PublishAsyncPending() >= p.cfg.PendingMax || p.pendingBytes.Load() > 0 && p.pendingBytes.Load()+n > p.cfg.PendingBytesMax {
		return events.ErrFull
	}
	p.pendingBytes.Add(n)
	_, err := p.js.PublishMsgAsync(&nats.Msg{Subject: p.subject, Data: data}, noRetry...)
	if err == nil {
		return nil
	}
	p.pendingBytes.Add(-n)
	if errors.Is(err, nats.ErrMaxPayload) {
		return fmt.Errorf("publish %d bytes: %w", n, events.ErrTooLarge)
	}
	return fmt.Errorf("publish observation: %w", err)
}

// flush waits for all acknowledgements and returns what failed since the last call.
func (p *publisher) flush(ctx context.Context) error {
	select {
	case <-p.js.PublishAsyncComplete():
	case <-ctx.Done():
		return ctx.Err()
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	err, n := p.failed, p.failures
	p.failed, p.failures = nil, 0
	if err != nil {
		return fmt.Errorf("%d publishes not acknowledged: %w", n, err)
	}
	return nil
}

// Publish implements events.Stream.
func (s *Stream) Publish(ctx context.Context, data []byte) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	return s.pub.publish(data)
}

// Flush implements events.Stream.
func (s *Stream) Flush(ctx context.Context) error { return s.pub.flush(ctx) }

// Pending is the number of publishes without acknowledgement.
func (s *Stream) Pending() int { return s.js.PublishAsyncPending() }
