package eventstest

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"time"

	"millwright/events"
)

// Server is one bus under test.
type Server interface {
	// Connect returns a new client whose queue of unacknowledged publishes is bounded to queueMax.
	Connect(t *testing.T, queueMax int) events.Stream
	// Interrupt makes the server unreachable, Restore reachable again with all it had stored.
	Interrupt(t *testing.T)
	Restore(t *testing.T)
	// Discard drops all messages below first, as retention does.
	Discard(t *testing.T, first uint64)
	// Lose makes the server forget everything it has stored.
	Lose(t *testing.T)
	// Stall withholds acknowledgements, if the bus can do that; otherwise it does nothing.
	Stall(t *testing.T)
	Unstall(t *testing.T)
}

// queueMax for cases to which it does not matter.
const queueMax = 1024

// timeout of a case: far above what it takes; reached only if it hangs.
const timeout = 60 * time.Second

// Run runs the suite; start returns a new, empty server.
func Run(t *testing.T, start func(t *testing.T) Server) {
	cases := map[string]func(ctx context.Context, t *testing.T, s Server){
		"an empty stream has its first sequence above its last":              emptyState,
		"messages are consumed in the order of publishing":                   order,
		"a consumer starts at the sequence it asks for":                      fromSequence,
		"sequence zero is the first retained":                                fromZero,
		"a consumer gets what is published after it has started":             live,
		"two clients see the same messages under the same sequences":         twoClients,
		"a consumer ends with the error of its function":                     callbackError,
		"a consumer ends with its context":                                   cancelled,
		"a sequence that was discarded is compacted":                         compacted,
		"a sequence beyond the end means that the stream lost messages":      beyondEnd,
		"a full queue refuses, and accepts again after a flush":              full,
		"a flush reports what was not stored":                                flushReports,
		"a consumer goes on after the server was away":                       reconnect,
		"a client opened again finds the messages":                           reopen,
		"renewing gives an empty stream of another name":                     renew,
		"a consumer of an abandoned incarnation is sent away":                renewedConsumer,
		"a consumer is told when the server forgot what it had delivered":    lost,
		"a blob is what was put last under its name":                         blobs,
		"a blob may be larger than a message":                                largeBlob,
		"blobs outlive the incarnation":                                      blobsOutlive,
		"data handed to publish may be reused by the caller after the flush": reuse,
	}
	for name, run := range cases {
		t.Run(name, func(t *testing.T) {
			ctx, cancel := context.WithTimeout(t.Context(), timeout)
			defer cancel()
			run(ctx, t, start(t))
		})
	}
}

func payload(i int) []byte { return fmt.Appendf(nil, "message %d", i) }

// publish n messages, numbered from first on, and flush.
func publish(ctx context.Context, t *testing.T, s events.Stream, first, n int) {
	t.Helper()
	for i := first; i < first+n; i++ {
		if err := s.Publish(ctx, payload(i)); err != nil {
			t.Fatalf("publish %d: %v", i, err)
		}
	}
	if err := s.Flush(ctx); err != nil {
		t.Fatalf("flush: %v", err)
	}
}

var errEnough = errors.New("enough")

// collect consumes until n messages have arrived.
func collect(ctx context.Context, t *testing.T, s events.Stream, from uint64, n int) []events.Message {
	t.Helper()
	var got []events.Message
	err := s.Consume(ctx, from, func(m events.Message) error {
		got = append(got, m)
		if len(got) == n {
			return errEnough
		}
		return nil
	})
	if !errors.Is(err, errEnough) {
		t.Fatalf("consume from %d: %v after %d of %d messages", from, err, len(got), n)
	}
	return got
}

// expect compares with messages first, first+1, … stored from sequence on.
func expect(t *testing.T, got []events.Message, sequence uint64, first int) {
	t.Helper()
	for i, m := range got {
		if m.Sequence != sequence+uint64(i) || string(m.Data) != string(payload(first+i)) {
			t.Fatalf("message %d: sequence %d, data %q; want sequence %d, data %q", i, m.Sequence, m.Data, sequence+uint64(i), payload(first+i))
		}
	}
}

// background is a Consume in a goroutine.
type background struct {
	messages chan events.Message
	done     chan error
}

func consume(ctx context.Context, s events.Stream, from uint64) background {
	b := background{make(chan events.Message, 4096), make(chan error, 1)}
	go func() {
		b.done <- s.Consume(ctx, from, func(m events.Message) error {
			b.messages <- m
			return nil
		})
	}()
	return b
}

func (b background) next(ctx context.Context, t *testing.T) events.Message {
	t.Helper()
	select {
	case m := <-b.messages:
		return m
	case err := <-b.done:
		t.Fatalf("consume ended: %v", err)
	case <-ctx.Done():
		t.Fatal("no message")
	}
	return events.Message{}
}

func state(ctx context.Context, t *testing.T, s events.Stream) events.StreamState {
	t.Helper()
	st, err := s.State(ctx)
	if err != nil {
		t.Fatalf("state: %v", err)
	}
	return st
}
