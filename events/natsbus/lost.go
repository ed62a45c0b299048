package natsbus

import (
	"bytes"
	"context"
	"errors"
	"sync"
	"time"

	"github.com/nats-io/nats.go/jetstream"

	"millwright/events"
)

// doubtDefault is how long a server may go on saying that a stream, or its end, does not exist before it is
// believed. A server that has just become the leader of a stream or of the cluster answers before it has
// applied all that it holds: what it does not know yet was not lost.
const doubtDefault = 5 * time.Second

// position in a stream; for concurrent use.
type position struct {
	mu sync.Mutex
	m  events.Message
	// connection is the one over which m was delivered, or was found to be stored still.
	connection uint64
}

// startAt sets the position before a sequence, unless it is there already.
func (p *position) startAt(from uint64) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.m.Sequence+1 != from {
		p.m = events.Message{Sequence: from - 1}
	}
}

// moveTo takes in which connection delivers now, and reports whether another one did so far.
func (p *position) moveTo(connection uint64) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	moved := p.connection != connection
	p.connection = connection
	return moved
}

// last message delivered; without Data if none was yet.
func (p *position) last() events.Message {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.m
}

func (p *position) sequence() uint64 { return p.last().Sequence }

func (p *position) set(m events.Message) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.m = m
}

// lost reports whether incarnation n no longer holds a message that was delivered: it is gone, it ends before
// the message, or another one has taken its place. Where no server can tell, nothing is lost.
func (s *Stream) lost(ctx context.Context, n int, delivered events.Message) bool {
	state, err := s.stateOf(ctx, n)
	if err == nil && state.Last >= delivered.Sequence || err != nil && !errors.Is(err, jetstream.ErrStreamNotFound) {
		return false
	}
	state, err = s.settled(ctx, n, delivered.Sequence)
	switch {
	case err != nil:
		return errors.Is(err, jetstream.ErrStreamNotFound)
	case state.Last < delivered.Sequence:
		return true
	}
	return s.replaced(ctx, n, delivered)
}

// settled is the state of incarnation n once it holds a message with sequence last, or after cfg.doubt.
func (s *Stream) settled(ctx context.Context, n int, last uint64) (events.StreamState, error) {
	for end := time.Now().Add(s.cfg.doubt); ; {
		state, err := s.stateOf(ctx, n)
		believed := err == nil && state.Last >= last || err != nil && !errors.Is(err, jetstream.ErrStreamNotFound)
		if believed || time.Now().After(end) || pause(ctx, s.cfg.doubt/50) != nil {
			return state, err
		}
	}
}

// replaced reports whether the message in the place of one that was delivered is another: the stream lost its
// end, and was then written on.
func (s *Stream) replaced(ctx context.Context, n int, delivered events.Message) bool {
	if delivered.Data == nil {
		return false
	}
	for end := time.Now().Add(s.cfg.doubt); ; {
		var stored *jetstream.RawStreamMsg
		err := s.askRepeatedly(ctx, func(ctx context.Context) error {
			stream, err := s.js.Stream(ctx, s.cfg.streamName(n))
			if err == nil {
				stored, err = stream.GetMsg(ctx, delivered.Sequence)
			}
			return err
		})
		if err == nil {
			return !bytes.Equal(stored.Data, delivered.Data)
		}
		if time.Now().After(end) || pause(ctx, s.cfg.doubt/50) != nil {
			return false
		}
	}
}
