package natsbus

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strconv"
	"time"

	"github.com/nats-io/nats.go"

	"millwright/events"
)

// A ReadOnly client creates no consumer: whoever may create one chooses where the server sends what is in the
// stream, for example back into the stream. It requests messages by their sequences, and again when the
// server announces that it has stored another.
const (
	batchMessages = 2000
	batchBytes    = 8 << 20
	// lookEveryDefault is how often it looks if no announcements arrive: on a stream of an earlier version,
	// or at a server that does not let it subscribe.
	lookEveryDefault = 250 * time.Millisecond
)

// Headers of the answers, and statuses in them.
const (
	headerStream   = "Nats-Stream"
	headerSequence = "Nats-Sequence"
	headerStatus   = "Status"
	statusEnd      = "204"
	statusNone     = "404"
)

// read is consume for a ReadOnly client.
func (s *Stream) read(ctx context.Context, n int, from *uint64, delivered *position, fn func(events.Message) error) error {
	if err := s.checkStart(ctx, n, from, delivered); err != nil {
		return err
	}
	b, err := s.newBatches(n, delivered)
	if err != nil {
		return err
	}
	defer b.close()
	ctx, cancel := context.WithCancelCause(ctx)
	watched := s.watchIncarnation(ctx, n, delivered, cancel)
	defer func() {
		cancel(nil)
		<-watched
	}()
	for err == nil {
		err = b.readOn(ctx, fn)
	}
	*from = delivered.sequence() + 1
	s.saw(n, *from-1)
	return errors.Join(context.Cause(ctx), err)
}

// batches reads one incarnation.
type batches struct {
	s         *Stream
	n         int
	delivered *position
	answers   *nats.Subscription
	inbox     string
	asked     int
	stored    *nats.Subscription
	wake      chan struct{}
}

func (s *Stream) newBatches(n int, delivered *position) (*batches, error) {
	b := &batches{s: s, n: n, delivered: delivered, inbox: s.conn.NewInbox(), wake: make(chan struct{}, 1)}
	var err error
	if b.answers, err = s.conn.SubscribeSync(b.inbox + ".*"); err != nil {
		return nil, err
	}
	if err = b.answers.SetPendingLimits(-1, -1); err == nil { // a batch is bounded by what was requested
		b.stored, err = s.conn.Subscribe(s.cfg.storedSubject(n), func(*nats.Msg) {
			select {
			case b.wake <- struct{}{}:
			default:
			}
		})
	}
	if err != nil {
		b.close()
		return nil, err
	}
	return b, nil
}

func (b *batches) close() {
	for _, sub := range []*nats.Subscription{b.answers, b.stored} {
		if sub != nil {
			_ = sub.Unsubscribe()
		}
	}
}

// readOn delivers a batch; if there is none it waits.
func (b *batches) readOn(ctx context.Context, fn func(events.Message) error) error {
	before := b.delivered.sequence()
	if err := b.requestBatch(); err != nil {
		return err
	}
	for {
		m, err := b.next(ctx)
		if errors.Is(err, context.DeadlineExceeded) && ctx.Err() == nil {
			return nil // the server that was asked died: ask again
		}
		if err != nil {
			return err
		}
		switch status := m.Header.Get(headerStatus); status {
		case "":
			if err := b.deliver(ctx, m, fn); err != nil {
				return err
			}
			continue
		case statusEnd, statusNone:
		default:
			return fmt.Errorf("read stream %s: %s %s", b.s.cfg.streamName(b.n), status, m.Header.Get("Description"))
		}
		if b.delivered.sequence() > before {
			return nil
		}
		return b.wait(ctx)
	}
}

// requestBatch requests what follows the message delivered last.
func (b *batches) requestBatch() error {
	b.asked++
	request, err := json.Marshal(map[string]any{
		"seq": b.delivered.sequence() + 1, "batch": batchMessages, "max_bytes": batchBytes, "next_by_subj": b.s.cfg.subject(b.n),
	})
	if err != nil {
		return err
	}
	return b.s.conn.PublishRequest("$JS.API.DIRECT.GET."+b.s.cfg.streamName(b.n), b.reply(), request)
}

func (b *batches) reply() string { return b.inbox + "." + strconv.Itoa(b.asked) }

// next returns a part of the answer to the last request. Late answers to earlier requests are skipped.
func (b *batches) next(ctx context.Context) (*nats.Msg, error) {
	ctx, cancel := context.WithTimeout(ctx, 2*askAgain)
	defer cancel()
	for {
		m, err := b.answers.NextMsgWithContext(ctx)
		if err != nil || m.Subject == b.reply() {
			return m, err
		}
	}
}

func (b *batches) deliver(ctx context.Context, m *nats.Msg, fn func(events.Message) error) error {
	sequence, err := strconv.ParseUint(m.Header.Get(headerSequence), 10, 64)
	if name := b.s.cfg.streamName(b.n); err != nil || m.Header.Get(headerStream) != name {
		return fmt.Errorf("read stream %s: answered by message %q of stream %q", name, m.Header.Get(headerSequence), m.Header.Get(headerStream))
	}
	return b.s.handOut(ctx, b.n, events.Message{Sequence: sequence, Data: m.Data}, b.delivered, fn)
}

// wait returns when a message was stored, or might have been.
func (b *batches) wait(ctx context.Context) error {
	look := time.NewTimer(b.s.cfg.lookEvery)
	defer look.Stop()
	select {
	case <-ctx.Done():
		return ctx.Err()
	case <-b.wake:
	case <-look.C:
	}
	return nil
}
