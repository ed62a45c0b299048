package membus

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"

	"millwright/events"
)

// QueueMax bounds the publishes that wait while the Bus is held.
const QueueMax = 4096

// ErrUnavailable is what a publish returns after Fail.
var ErrUnavailable = errors.New("bus unavailable")

// Bus is the server: it outlives its clients.
type Bus struct {
	mu       sync.Mutex
	number   int
	first    uint64 // sequence of messages[0]; last = first + len - 1
	messages [][]byte
	held     bool
	down     bool
	changed  chan struct{} // closed and replaced when anything above changes
	blobs    *blobs
}

// NewBus returns an empty bus.
func NewBus() *Bus {
	return &Bus{number: 1, first: 1, changed: make(chan struct{}), blobs: &blobs{data: map[string][]byte{}}}
}

// New returns a client of a bus of its own.
func New() *Stream { return NewBus().Connect(QueueMax) }

// Connect returns a client whose queue of unacknowledged publishes has the given bound.
func (b *Bus) Connect(queueMax int) *Stream {
	b.mu.Lock()
	defer b.mu.Unlock()
	return &Stream{bus: b, queueMax: queueMax, incarnation: b.number, closed: make(chan struct{})}
}

// Hold makes the bus accept publishes without storing them, until Release.
func (b *Bus) Hold() { b.change(func() { b.held = true }) }

// Release ends Hold and Fail.
func (b *Bus) Release() { b.change(func() { b.held, b.down = false, false }) }

// Fail makes queued and further publishes fail, until Release. Consumers wait.
func (b *Bus) Fail() { b.change(func() { b.down = true }) }

// Discard drops the messages below first, as retention does.
func (b *Bus) Discard(first uint64) {
	b.change(func() {
		n := min(max(first, b.first)-b.first, uint64(len(b.messages)))
		b.messages, b.first = slices.Clone(b.messages[n:]), b.first+n
	})
}

// Lose drops the messages above last, like a server that lost what it had not written yet.
func (b *Bus) Lose(last uint64) {
	b.change(func() {
		if last < b.last() {
			b.messages = b.messages[:max(last+1, b.first)-b.first]
		}
	})
}

func (b *Bus) change(f func()) {
	b.mu.Lock()
	defer b.mu.Unlock()
	f()
	b.notify()
}

func (b *Bus) notify() {
	close(b.changed)
	b.changed = make(chan struct{})
}

func (b *Bus) last() uint64 { return b.first + uint64(len(b.messages)) - 1 }

func (b *Bus) state() events.StreamState {
	return events.StreamState{Incarnation: fmt.Sprintf("membus_%d", b.number), First: b.first, Last: b.last()}
}

func (b *Bus) store(messages ...[]byte) {
	b.messages = append(b.messages, messages...)
	b.notify()
}

// renew starts a new, empty incarnation.
func (b *Bus) renew() { b.number, b.first, b.messages = b.number+1, 1, nil }

// next returns the message at sequence n, or a channel to wait on if it does not exist yet.
func (b *Bus) next(incarnation int, n uint64) (events.Message, <-chan struct{}, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	switch {
	case b.number != incarnation:
		return events.Message{}, nil, events.ErrRenewed
	case n > b.last()+1: // lost what this client has seen: abandoned
		b.renew()
		b.notify()
		return events.Message{}, nil, events.ErrRenewed
	case n < b.first:
		return events.Message{}, nil, fmt.Errorf("sequence %d, first is %d: %w", n, b.first, events.ErrCompacted)
	case n > b.last(), b.down:
		return events.Message{}, b.changed, nil
	}
	return events.Message{Sequence: n, Data: b.messages[n-b.first]}, nil, nil
}

// Stream is a client of a Bus.
type Stream struct {
	bus      *Bus
	queueMax int

	mu          sync.Mutex
	incarnation int
	queue       [][]byte // accepted while the bus was held
	failed      error    // since the last Flush
	closeOnce   sync.Once
	closed      chan struct{}
}

var _ events.Stream = (*Stream)(nil)

// State implements events.Stream.
func (s *Stream) State(context.Context) (events.StreamState, error) {
	s.bus.mu.Lock()
	defer s.bus.mu.Unlock()
	return s.bus.state(), nil
}

// Publish implements events.Stream.
func (s *Stream) Publish(_ context.Context, data []byte) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.bus.mu.Lock()
	defer s.bus.mu.Unlock()
	if s.bus.down {
		s.failQueue()
		return ErrUnavailable
	}
	if s.bus.held {
		if len(s.queue) >= s.queueMax {
			return events.ErrFull
		}
		s.queue = append(s.queue, slices.Clone(data))
		return nil
	}
	s.drain()
	s.bus.store(slices.Clone(data))
	return nil
}

// drain stores what was queued while held. The caller holds both locks.
func (s *Stream) drain() {
	s.bus.store(s.queue...)
	s.queue = nil
}

func (s *Stream) failQueue() {
	if len(s.queue) > 0 {
		s.failed = fmt.Errorf("%d publishes lost: %w", len(s.queue), ErrUnavailable)
		s.queue = nil
	}
}

// Flush implements events.Stream.
func (s *Stream) Flush(ctx context.Context) error {
	for {
		wait, err := s.flush()
		if wait == nil {
			return err
		}
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-wait:
		}
	}
}

func (s *Stream) flush() (wait <-chan struct{}, err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.bus.mu.Lock()
	defer s.bus.mu.Unlock()
	switch {
	case s.bus.down:
		s.failQueue()
	case s.bus.held && len(s.queue) > 0:
		return s.bus.changed, nil
	default:
		s.drain()
	}
	err, s.failed = s.failed, nil
	return nil, err
}

// Consume implements events.Stream.
func (s *Stream) Consume(ctx context.Context, from uint64, fn func(events.Message) error) error {
	s.mu.Lock()
	incarnation := s.incarnation
	s.mu.Unlock()
	if from == 0 {
		state, _ := s.State(ctx)
		from = state.First
	}
	for ctx.Err() == nil {
		m, wait, err := s.bus.next(incarnation, from)
		switch {
		case err != nil:
			s.rebind()
			return err
		case wait != nil:
			if err := s.wait(ctx, wait); err != nil {
				return err
			}
			continue
		}
		if err := fn(m); err != nil {
			return err
		}
		from++
	}
	return ctx.Err()
}

func (s *Stream) wait(ctx context.Context, changed <-chan struct{}) error {
	select {
	case <-changed:
		return nil
	case <-s.closed:
		return errors.New("stream closed")
	case <-ctx.Done():
		return ctx.Err()
	}
}

// rebind follows the bus to its present incarnation.
func (s *Stream) rebind() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.bus.mu.Lock()
	defer s.bus.mu.Unlock()
	s.incarnation = s.bus.number
}

// Renew implements events.Stream.
func (s *Stream) Renew(ctx context.Context) (events.StreamState, error) {
	s.mu.Lock()
	s.queue, s.failed = nil, nil
	s.bus.change(s.bus.renew)
	s.mu.Unlock()
	s.rebind()
	return s.State(ctx)
}

// Blobs implements events.Stream.
func (s *Stream) Blobs() events.Blobs { return s.bus.blobs }

// Close ends the client's Consume calls. The bus stays.
func (s *Stream) Close() error {
	s.closeOnce.Do(func() { close(s.closed) })
	return nil
}
