package natsbus

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"sync"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"millwright/events"
)

// Stream implements events.Stream.
type Stream struct {
	cfg   Config
	conn  *nats.Conn
	js    jetstream.JetStream
	blobs bucket
	pub   *publisher

	mu sync.Mutex
	// number of the incarnation in force.
	number int
	// seen is the highest sequence this client knows to have existed, by incarnation.
	seen map[int]uint64
	// mended is when the bucket was last looked for, and more replicas were asked for.
	mended time.Time
}

var _ events.Stream = (*Stream)(nil)

// bucket of blobs; open is called again whenever a server may have lost it.
type bucket interface {
	events.Blobs
	open(ctx context.Context) error
}

// errNotMade: what only the watcher creates does not exist yet. Trying again helps once it runs.
var errNotMade = errors.New("only the watcher creates it: is one running?")

// Open connects, waiting for the server until ctx ends, and creates stream and bucket if they do not exist; a
// ReadOnly client returns an error instead.
func Open(ctx context.Context, cfg Config) (*Stream, error) {
	cfg = cfg.withDefaults()
	if err := cfg.check(); err != nil {
		return nil, err
	}
	conn, err := connect(ctx, cfg)
	if err != nil {
		return nil, fmt.Errorf("open bus: %w", err)
	}
	s := &Stream{cfg: cfg, conn: conn, seen: map[int]uint64{}, pub: &publisher{cfg: cfg}}
	if err := s.open(ctx); err != nil {
		conn.Close()
		return nil, fmt.Errorf("open bus: %w", err)
	}
	return s, nil
}

func connect(ctx context.Context, cfg Config) (*nats.Conn, error) {
	conn, err := nats.Connect(cfg.URL, cfg.options()...)
	if err != nil {
		return nil, err
	}
	for !conn.IsConnected() {
		select {
		case <-ctx.Done():
			err := conn.LastError()
			conn.Close()
			return nil, errors.Join(ctx.Err(), err)
		case <-time.After(10 * time.Millisecond):
		}
	}
	return conn, nil
}

func (s *Stream) open(ctx context.Context) error {
	js, err := jetstream.New(s.conn, s.pub.options()...)
	if err != nil {
		return err
	}
	s.js, s.pub.js = js, js
	reader := &readBlobs{s}
	s.blobs = reader
	if !s.cfg.ReadOnly {
		s.blobs = &blobs{readBlobs: reader, js: js, cfg: s.cfg}
	}
	return s.bind(ctx)
}

// bind finds the incarnation in force, creating one if there is none or if the last has lost messages, and
// the bucket beside it. Of those before, only the one that was in force last is kept: each reserves space.
func (s *Stream) bind(ctx context.Context) error {
	n, err := s.highest(ctx)
	if err != nil {
		return err
	}
	for n = s.followedBy(max(n, s.current(), 1)); ; n++ {
		if !s.cfg.ReadOnly {
			_ = s.deleteBelow(ctx, n-1) // if that fails, it is done with the next one
		}
		seen := s.minSequence(n) // before the state is requested, since it rises all the time
		state, err := s.ensure(ctx, n)
		if err != nil {
			return err
		}
		if state.Last < seen {
			if state, err = s.settled(ctx, n, seen); err != nil {
				return err
			}
		}
		if state.Last >= seen {
			s.switchTo(n, state.Last)
			return s.blobs.open(ctx)
		}
	}
}

// followedBy returns the highest number from n on of an incarnation that is known to have had messages, n if
// there is none: no server need remember it, and it need not be made again to see that it lost them.
func (s *Stream) followedBy(n int) int {
	const unknownMax = 50 // one that is known may come after some of which nothing was recorded
	for next := n + 1; next <= n+unknownMax; next++ {
		if s.minSequence(next) > 0 {
			n = next
		}
	}
	return n
}

// highest returns the highest number of an incarnation that exists, 0 if there is none.
func (s *Stream) highest(ctx context.Context) (n int, err error) {
	err = s.askRepeatedly(ctx, func(ctx context.Context) error {
		n, err = s.highestNow(ctx)
		return err
	})
	return n, err
}

// askAgain is how long an answer may take before a request is repeated: a server that dies takes the requests
// it was sent along, and the next leader does not know of them.
const askAgain = time.Second

// askRepeatedly repeats a request that changes nothing until it is answered, for RequestTimeout at most.
func (s *Stream) askRepeatedly(ctx context.Context, question func(ctx context.Context) error) error {
	ctx, cancel := context.WithTimeout(ctx, s.cfg.RequestTimeout)
	defer cancel()
	for {
		attempt, end := context.WithTimeout(ctx, askAgain)
		err := question(attempt)
		end()
		if err == nil || ctx.Err() != nil || !errors.Is(err, context.DeadlineExceeded) {
			return err
		}
	}
}

func (s *Stream) highestNow(ctx context.Context) (int, error) {
	names := s.js.StreamNames(ctx, jetstream.WithStreamListSubject(s.cfg.subjectsOf()))
	n := 0
	for name := range names.Name() {
		n = max(n, s.cfg.number(name))
	}
	if err := names.Err(); err != nil && !errors.Is(err, jetstream.ErrEndOfData) {
		return 0, fmt.Errorf("list streams: %w", err)
	}
	return n, nil
}

func (s *Stream) minSequence(n int) uint64 {
	s.mu.Lock()
	defer s.mu.Unlock()
	return max(s.seen[n], s.cfg.MinSequence(s.cfg.streamName(n)))
}

func (s *Stream) switchTo(n int, last uint64) {
	s.mu.Lock()
	s.number = n
	maps.DeleteFunc(s.seen, func(before int, _ uint64) bool { return before < n-1 })
	s.mu.Unlock()
	s.saw(n, last)
	s.pub.setSubject(s.cfg.subject(n))
}

func (s *Stream) saw(n int, sequence uint64) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.seen[n] = max(s.seen[n], sequence)
}

func (s *Stream) current() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.number
}

// ensure creates incarnation n if it does not exist, applies explicit bounds, and returns its state.
func (s *Stream) ensure(ctx context.Context, n int) (events.StreamState, error) {
	ctx, cancel := context.WithTimeout(ctx, s.cfg.RequestTimeout)
	defer cancel()
	want := s.cfg.streamConfig(n)
	stream, err := s.js.Stream(ctx, want.Name)
	if errors.Is(err, jetstream.ErrStreamNotFound) {
		if s.cfg.ReadOnly {
			return events.StreamState{}, fmt.Errorf("open stream %s: %w", want.Name, errNotMade)
		}
		stream, err = s.create(ctx, want)
	}
	if err != nil {
		return events.StreamState{}, fmt.Errorf("open stream %s: %w", want.Name, err)
	}
	if s.cfg.ReadOnly {
		return stateOf(stream.CachedInfo()), nil
	}
	if config, change := s.cfg.bounded(stream.CachedInfo().Config); change {
		if stream, err = s.js.UpdateStream(ctx, config); err != nil {
			return events.StreamState{}, fmt.Errorf("update stream %s: %w", want.Name, err)
		}
	}
	return stateOf(stream.CachedInfo()), nil
}

func (s *Stream) create(ctx context.Context, want jetstream.StreamConfig) (stream jetstream.Stream, err error) {
	err = s.cfg.withReplicas(func(replicas int) error {
		want.Replicas = replicas
		stream, err = s.js.CreateStream(ctx, want)
		return err
	})
	if errors.Is(err, jetstream.ErrStreamNameAlreadyInUse) {
		return s.js.Stream(ctx, want.Name)
	}
	if err != nil {
		return nil, fmt.Errorf("create it: %w", err)
	}
	return stream, nil
}

func stateOf(info *jetstream.StreamInfo) events.StreamState {
	state := events.StreamState{Incarnation: info.Config.Name, First: info.State.FirstSeq, Last: info.State.LastSeq}
	if info.State.Msgs == 0 {
		state.First = state.Last + 1
	}
	return state
}

// State implements events.Stream. If the incarnation is no longer in force, the client moves to the one that
// is.
func (s *Stream) State(ctx context.Context) (events.StreamState, error) {
	n := s.current()
	seen := s.minSequence(n)
	state, err := s.stateOf(ctx, n)
	if err != nil && !errors.Is(err, jetstream.ErrStreamNotFound) {
		return state, err
	}
	s.mendSometimes(ctx)
	higher, listErr := s.highest(ctx)
	if err == nil && listErr == nil && higher <= n && state.Last >= seen {
		return state, nil
	}
	if err := errors.Join(listErr, s.bind(ctx)); err != nil {
		return events.StreamState{}, err
	}
	return s.stateOf(ctx, s.current())
}

func (s *Stream) stateOf(ctx context.Context, n int) (state events.StreamState, err error) {
	err = s.askRepeatedly(ctx, func(ctx context.Context) error {
		stream, err := s.js.Stream(ctx, s.cfg.streamName(n))
		if err == nil {
			state = stateOf(stream.CachedInfo())
		}
		return err
	})
	if err != nil {
		return events.StreamState{}, fmt.Errorf("state of stream %s: %w", s.cfg.streamName(n), err)
	}
	return state, nil
}

// Renew implements events.Stream; a ReadOnly client cannot. The previous incarnation is kept until its
// messages are too old; older ones are deleted.
func (s *Stream) Renew(ctx context.Context) (events.StreamState, error) {
	n, err := s.highest(ctx)
	if err != nil {
		return events.StreamState{}, err
	}
	n = max(n, s.current())
	state, err := s.ensure(ctx, n+1)
	if err != nil {
		return state, err
	}
	s.switchTo(n+1, state.Last)
	return state, s.deleteBelow(ctx, n)
}

func (s *Stream) deleteBelow(ctx context.Context, n int) error {
	ctx, cancel := context.WithTimeout(ctx, s.cfg.RequestTimeout)
	defer cancel()
	var names []string
	lister := s.js.StreamNames(ctx, jetstream.WithStreamListSubject(s.cfg.subjectsOf()))
	for name := range lister.Name() {
		if m := s.cfg.number(name); m > 0 && m < n {
			names = append(names, name)
		}
	}
	slices.Sort(names)
	for _, name := range names {
		if err := s.js.DeleteStream(ctx, name); err != nil && !errors.Is(err, jetstream.ErrStreamNotFound) {
			return fmt.Errorf("delete stream %s: %w", name, err)
		}
	}
	return nil
}

// Blobs implements events.Stream.
func (s *Stream) Blobs() events.Blobs { return s.blobs }

// Close drops the connection. Publishes without acknowledgement are lost: Flush first.
func (s *Stream) Close() error {
	s.conn.Close()
	return nil
}
