package natsbus

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/nats-io/nats.go/jetstream"

	"millwright/events"
)

// errCallback marks an error of the consumer's own function.
type errCallback struct{ error }

func (e errCallback) Unwrap() error { return e.error }

// Consume implements events.Stream.
func (s *Stream) Consume(ctx context.Context, from uint64, fn func(events.Message) error) error {
	n := s.current()
	var delivered position
	for attempt := 0; ; attempt++ {
		before := from
		consume := s.consume
		if s.cfg.ReadOnly {
			consume = s.read
		}
		err := consume(ctx, n, &from, &delivered, fn)
		var own errCallback
		switch {
		case errors.As(err, &own):
			return own.error
		case ctx.Err() != nil:
			return ctx.Err()
		case errors.Is(err, events.ErrCompacted):
			return err
		case errors.Is(err, events.ErrRenewed):
			return errors.Join(err, s.bind(ctx))
		case s.conn.IsClosed():
			return fmt.Errorf("consume: %w", err)
		}
		if from > before {
			attempt = 0
		}
		if err := pause(ctx, reconnectDelay(attempt)); err != nil {
			return err
		}
	}
}

func pause(ctx context.Context, d time.Duration) error {
	select {
	case <-ctx.Done():
		return ctx.Err()
	case <-time.After(d):
		return nil
	}
}

// consume reads from *from on over one consumer on the server, moving *from and delivered, until something
// fails.
func (s *Stream) consume(ctx context.Context, n int, from *uint64, delivered *position, fn func(events.Message) error) error {
	if err := s.checkStart(ctx, n, from, delivered); err != nil {
		return err
	}
	consumer, err := s.consumer(ctx, n, *from)
	if err != nil {
		return err
	}
	messages, err := consumer.Messages(jetstream.PullMaxMessages(2000), jetstream.PullHeartbeat(time.Second), jetstream.PullExpiry(30*time.Second))
	if err != nil {
		return err
	}
	ctx, cancel := context.WithCancelCause(ctx)
	watched := s.watchIncarnation(ctx, n, delivered, cancel)
	defer func() {
		messages.Stop()
		cancel(nil)
		<-watched
	}()
	err = s.deliver(ctx, n, messages, delivered, fn)
	*from = delivered.sequence() + 1
	s.saw(n, *from-1)
	return err
}

func (s *Stream) consumer(ctx context.Context, n int, from uint64) (jetstream.Consumer, error) {
	ctx, cancel := context.WithTimeout(ctx, s.cfg.RequestTimeout)
	defer cancel()
	return s.js.OrderedConsumer(ctx, s.cfg.streamName(n), jetstream.OrderedConsumerConfig{
		DeliverPolicy: jetstream.DeliverByStartSequencePolicy, OptStartSeq: from,
		InactiveThreshold: time.Minute, MaxResetAttempts: 1,
	})
}

// checkStart refuses a start outside of what the stream holds, or after a message that it no longer holds. It
// sets where the reader is.
func (s *Stream) checkStart(ctx context.Context, n int, from *uint64, delivered *position) error {
	higher, err := s.highest(ctx)
	if err == nil && higher > n {
		return fmt.Errorf("stream %s is followed by number %d: %w", s.cfg.streamName(n), higher, events.ErrRenewed)
	}
	state, err := s.settled(ctx, n, max(*from, 1)-1)
	switch {
	case errors.Is(err, jetstream.ErrStreamNotFound):
		return fmt.Errorf("stream %s is gone: %w", s.cfg.streamName(n), events.ErrRenewed)
	case err != nil:
		return err
	}
	if *from == 0 {
		*from = state.First
	}
	if *from > state.Last+1 {
		s.saw(n, *from-1)
		return fmt.Errorf("sequence %d of %s, last is %d: %w", *from, state.Incarnation, state.Last, events.ErrRenewed)
	}
	if *from < state.First {
		return fmt.Errorf("sequence %d of %s, first is %d: %w", *from, state.Incarnation, state.First, events.ErrCompacted)
	}
	delivered.startAt(*from)
	delivered.moveTo(s.conn.Stats().Reconnects)
	if delivered.sequence() < state.First { // it was discarded
		return nil
	}
	return s.checkReplaced(ctx, n, delivered.last())
}

// checkReplaced returns ErrRenewed if another message is in the place of one that was delivered.
func (s *Stream) checkReplaced(ctx context.Context, n int, delivered events.Message) error {
	if !s.replaced(ctx, n, delivered) {
		return nil
	}
	return fmt.Errorf("stream %s lost message %d and was written on: %w", s.cfg.streamName(n), delivered.Sequence, events.ErrRenewed)
}

func (s *Stream) deliver(ctx context.Context, n int, messages jetstream.MessagesContext, delivered *position, fn func(events.Message) error) error {
	for {
		m, err := messages.Next(jetstream.NextContext(ctx))
		if err != nil {
			return errors.Join(context.Cause(ctx), err)
		}
		meta, err := m.Metadata()
		if err != nil {
			return err
		}
		if err := s.handOut(ctx, n, events.Message{Sequence: meta.Sequence.Stream, Data: m.Data()}, delivered, fn); err != nil {
			return err
		}
	}
}

// handOut calls fn with a message that follows the one delivered last, even after a hole. Any other is
// skipped. If the client has reconnected, a server that lost its end may have been written on meanwhile, past
// what was delivered.
func (s *Stream) handOut(ctx context.Context, n int, m events.Message, delivered *position, fn func(events.Message) error) error {
	if delivered.moveTo(s.conn.Stats().Reconnects) {
		if err := s.checkReplaced(ctx, n, delivered.last()); err != nil {
			return err
		}
	}
	want := delivered.sequence() + 1
	switch {
	case m.Sequence < want:
		return nil
	case m.Sequence > want:
		if err := s.checkHole(ctx, n, want); err != nil {
			return err
		}
	}
	if err := fn(m); err != nil {
		return errCallback{err}
	}
	delivered.set(m)
	return nil
}

// checkHole distinguishes messages that were discarded before they were read from those that a server lost in
// the middle of the stream. The latter are skipped, because they will never come: the fold sees the gap.
func (s *Stream) checkHole(ctx context.Context, n int, want uint64) error {
	state, err := s.stateOf(ctx, n)
	if err == nil && want < state.First {
		err = fmt.Errorf("sequence %d was discarded before it was read: %w", want, events.ErrCompacted)
	}
	return err
}

// watchIncarnation cancels with ErrRenewed once another incarnation is in force or the stream has lost what
// was delivered. The channel returned is closed when it has ended.
func (s *Stream) watchIncarnation(ctx context.Context, n int, delivered *position, cancel context.CancelCauseFunc) <-chan struct{} {
	done := make(chan struct{})
	go func() {
		defer close(done)
		for pause(ctx, s.cfg.CheckEvery) == nil {
			higher, err := s.highest(ctx)
			if err != nil {
				continue
			}
			last := delivered.last()
			if higher > n || s.lost(ctx, n, last) {
				s.saw(n, last.Sequence)
				cancel(fmt.Errorf("stream %s: %w", s.cfg.streamName(n), events.ErrRenewed))
				return
			}
		}
	}()
	return done
}
