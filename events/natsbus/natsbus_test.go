package natsbus

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/nats-io/nats.go/jetstream"

	"millwright/events"
	"millwright/events/eventstest"
	"millwright/events/natsbus/embedded"
)

const (
	testCluster = "prod eu.1"
	testLogID   = "0123456789abcdef0123456789abcdef"
)

// server is a nats-server on a directory that can be stopped and started. It is the in-process connection
// of its clients, so that they find the one that runs now.
type server struct {
	dir string

	mu  sync.Mutex
	now *embedded.Server
}

func startServer(t *testing.T) *server {
	s := &server{dir: t.TempDir()}
	s.Restore(t)
	t.Cleanup(func() { s.stop(t) })
	return s
}

func (s *server) InProcessConn() (net.Conn, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.now == nil {
		return nil, fmt.Errorf("the server is stopped")
	}
	return s.now.InProcessConn()
}

func (s *server) stop(t *testing.T) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.now == nil {
		return
	}
	ctx, cancel := context.WithTimeout(context.Background(), 30*time.Second)
	defer cancel()
	if err := s.now.Stop(ctx); err != nil {
		t.Error(err)
	}
	s.now = nil
}

func (s *server) open(t *testing.T, change func(*Config)) *Stream {
	t.Helper()
	cfg := Config{Server: s, Cluster: testCluster, LogID: testLogID, CheckEvery: 20 * time.Millisecond}
	if change != nil {
		change(&cfg)
	}
	stream, err := Open(t.Context(), cfg)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = stream.Close() })
	return stream
}

func (s *server) Connect(t *testing.T, queueMax int) events.Stream {
	return s.open(t, func(c *Config) { c.PendingMax = queueMax })
}

func (s *server) Interrupt(t *testing.T) { s.stop(t) }

func (s *server) Restore(t *testing.T) {
	now, err := embedded.Start(s.dir)
	if err != nil {
		t.Fatal(err)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.now = now
}

func (s *server) Discard(t *testing.T, first uint64) {
	c := s.open(t, nil)
	stream, err := c.js.Stream(t.Context(), c.cfg.streamName(c.number))
	if err != nil {
		t.Fatal(err)
	}
	if err := stream.Purge(t.Context(), jetstream.WithPurgeSequence(first)); err != nil {
		t.Fatal(err)
	}
}

func (s *server) Lose(t *testing.T) {
	s.stop(t)
	if err := os.RemoveAll(filepath.Join(s.dir, "jetstream")); err != nil {
		t.Fatal(err)
	}
	s.Restore(t)
}

// A real server acknowledges when it wants to; publishing in a loop outruns it.
func (s *server) Stall(*testing.T)   {}
func (s *server) Unstall(*testing.T) {}

func TestConformance(t *testing.T) {
	eventstest.Run(t, func(t *testing.T) eventstest.Server { return startServer(t) })
}

// deaf is a server that, once told so, does not receive what it is asked: one that restarts never answers
// earlier requests.
type deaf struct {
	*server
	deaf atomic.Bool
}

func (d *deaf) InProcessConn() (net.Conn, error) {
	conn, err := d.server.InProcessConn()
	return deafConn{conn, &d.deaf}, err
}

type deafConn struct {
	net.Conn
	deaf *atomic.Bool
}

func (c deafConn) Write(p []byte) (int, error) {
	if c.deaf.Load() {
		return len(p), nil
	}
	return c.Conn.Write(p)
}

func TestAQuestionThatIsNeverAnswered(t *testing.T) {
	d := &deaf{server: startServer(t)}
	s := d.open(t, func(c *Config) { c.Server, c.RequestTimeout = d, 500*time.Millisecond }) // opening asks too, on a machine that may be busy
	d.deaf.Store(true)
	for name, ask := range map[string]func(context.Context) error{
		"State":   func(ctx context.Context) error { _, err := s.State(ctx); return err },
		"Renew":   func(ctx context.Context) error { _, err := s.Renew(ctx); return err },
		"consume": func(ctx context.Context) error { return s.consume(ctx, 1, new(uint64), new(position), nil) },
		"List":    func(ctx context.Context) error { _, err := s.Blobs().List(ctx, ""); return err },
		"Delete":  func(ctx context.Context) error { return s.Blobs().Delete(ctx, "x") },
	} {
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		if err := ask(ctx); !errors.Is(err, context.DeadlineExceeded) || ctx.Err() != nil {
			t.Errorf("%s: %v, the caller's own deadline: %v", name, err, ctx.Err())
		}
		cancel()
	}
}

// halves is a bus with two clients: one writes, and the other only reads.
type halves struct{ *server }

type half struct {
	*Stream
	reader *Stream
}

func (h halves) Connect(t *testing.T, queueMax int) events.Stream {
	writer := h.server.Connect(t, queueMax).(*Stream)
	return half{writer, h.open(t, func(c *Config) { c.ReadOnly = true })}
}

func (h half) Consume(ctx context.Context, from uint64, fn func(events.Message) error) error {
	if _, err := h.reader.State(ctx); err != nil { // as a service does first: it finds the incarnation in force
		return err
	}
	return h.reader.Consume(ctx, from, func(m events.Message) error {
		h.saw(h.current(), m.Sequence) // the watcher folds its own stream, and the Ledger says what was folded
		return fn(m)
	})
}

func (h half) Blobs() events.Blobs { return halfBlobs{h.Stream.Blobs(), h.reader.Blobs()} }

type halfBlobs struct {
	events.Blobs
	reader events.Blobs
}

func (b halfBlobs) Get(ctx context.Context, name string) ([]byte, error) {
	return b.reader.Get(ctx, name)
}

func (b halfBlobs) List(ctx context.Context, prefix string) ([]string, error) {
	return b.reader.List(ctx, prefix)
}

func TestConformanceOfAClientThatOnlyReads(t *testing.T) {
	eventstest.Run(t, func(t *testing.T) eventstest.Server { return halves{startServer(t)} })
}
