package natsbus

import (
	"context"
	"errors"
	"net"
	"os"
	"path/filepath"
	"sync/atomic"
	"testing"
	"time"

	"github.com/nats-io/nats.go/jetstream"

	"millwright/events"
)

// newLeader answers as a server may that has just become the leader: it knows of no stream while it is
// behind.
type newLeader struct {
	jetstream.JetStream
	behind atomic.Bool
	asked  atomic.Int32
}

func (l *newLeader) Stream(ctx context.Context, name string) (jetstream.Stream, error) {
	l.asked.Add(1)
	if l.behind.Load() {
		return nil, jetstream.ErrStreamNotFound
	}
	return l.JetStream.Stream(ctx, name)
}

// TestALeaderThatIsBehindIsNotBelieved: a server that says delivered messages are lost is believed only if it
// goes on saying so.
func TestALeaderThatIsBehindIsNotBelieved(t *testing.T) {
	s := startServer(t).open(t, func(c *Config) { c.CheckEvery, c.doubt = 10*time.Millisecond, 3*time.Second })
	leader := &newLeader{JetStream: s.js}
	s.js = leader
	read, ended := make(chan string, 10), make(chan error, 1)
	go func() {
		ended <- s.Consume(t.Context(), 1, func(m events.Message) error { read <- string(m.Data); return nil })
	}()
	publishNext(t, s, "before")
	if got := <-read; got != "before" {
		t.Fatalf("got %q", got)
	}
	leader.behind.Store(true)
	for before := leader.asked.Load(); leader.asked.Load() < before+5; {
		if err := pause(t.Context(), time.Millisecond); err != nil {
			t.Fatal(err)
		}
	}
	leader.behind.Store(false)
	publishNext(t, s, "after")
	select {
	case got := <-read:
		if got != "after" {
			t.Errorf("got %q", got)
		}
	case err := <-ended:
		t.Fatalf("the reader believed it: %v", err)
	}
	leader.behind.Store(true)
	select {
	case err := <-ended:
		if !errors.Is(err, events.ErrRenewed) {
			t.Errorf("got %v", err)
		}
	case <-time.After(time.Minute):
		t.Error("a stream that stays away is not taken for lost")
	}
}

// TestAnEndThatWasWrittenAnewIsLost: the stream holds another message in the place of the one delivered.
func TestAnEndThatWasWrittenAnewIsLost(t *testing.T) {
	s := startServer(t).open(t, func(*Config) {})
	publishNext(t, s, "stored")
	state, err := s.State(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	for text, lost := range map[string]bool{"stored": false, "another": true} {
		if got := s.replaced(t.Context(), s.current(), events.Message{Sequence: state.Last, Data: []byte(text)}); got != lost {
			t.Errorf("delivered %q: lost %v", text, got)
		}
	}
}

// lateServer keeps a client away while it is shut: one that reconnects later than others.
type lateServer struct {
	*server
	shut atomic.Bool
}

func (l *lateServer) InProcessConn() (net.Conn, error) {
	if l.shut.Load() {
		return nil, errors.New("no route")
	}
	return l.server.InProcessConn()
}

// TestAReaderIsToldOfAnEndThatWasWrittenAnewWhileItWasAway: the power went before the server had flushed what
// it acknowledged, and another watcher, which had not read that, wrote on past what the reader had read.
func TestAReaderIsToldOfAnEndThatWasWrittenAnewWhileItWasAway(t *testing.T) {
	for name, readOnly := range map[string]bool{"reader": true, "watcher": false} {
		t.Run(name, func(t *testing.T) {
			server := startServer(t)
			publishNext(t, server.open(t, nil), "flushed")
			server.stop(t)
			stored, flushed := filepath.Join(server.dir, "jetstream"), filepath.Join(t.TempDir(), "jetstream")
			if err := os.CopyFS(flushed, os.DirFS(stored)); err != nil {
				t.Fatal(err)
			}
			server.Restore(t)

			late := &lateServer{server: server}
			reader := server.open(t, func(c *Config) { c.Server, c.ReadOnly = late, readOnly })
			read, ended := make(chan string, 10), make(chan error, 1)
			go func() {
				ended <- reader.Consume(t.Context(), 1, func(m events.Message) error { read <- string(m.Data); return nil })
			}()
			publishNext(t, server.open(t, nil), "lost")
			for got := ""; got != "lost"; got = <-read {
			}

			late.shut.Store(true)
			server.stop(t)
			if err := errors.Join(os.RemoveAll(stored), os.CopyFS(stored, os.DirFS(flushed))); err != nil {
				t.Fatal(err)
			}
			server.Restore(t)
			other := server.open(t, nil)
			publishNext(t, other, "in its place")
			publishNext(t, other, "after it")
			late.shut.Store(false)
			select {
			case got := <-read:
				t.Errorf("%q follows what was lost", got)
			case err := <-ended:
				if !errors.Is(err, events.ErrRenewed) {
					t.Errorf("ended with %v", err)
				}
			case <-time.After(time.Minute):
				t.Error("the reader was not told")
			}
		})
	}
}

// TestABucketThatAloneIsLostIsMadeAgain: a person deleted it, or a server could not recover its files.
func TestABucketThatAloneIsLostIsMadeAgain(t *testing.T) {
	s := startServer(t).open(t, func(c *Config) { c.mendEvery = time.Millisecond })
	put(t, s.Blobs(), []byte("before"))
	if err := s.js.DeleteStream(t.Context(), (&readBlobs{s}).stream()); err != nil {
		t.Fatal(err)
	}
	eventually(t, "store a blob", func(ctx context.Context) error {
		_, err := s.State(ctx) // as the watcher does with each heartbeat
		return errors.Join(err, s.Blobs().Put(ctx, "catalog/x", []byte("after")))
	})
	if data, err := s.Blobs().Get(t.Context(), "catalog/x"); err != nil || string(data) != "after" {
		t.Errorf("got %q, %v", data, err)
	}
}
