package natsbus

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/nats-io/nats.go/jetstream"

	"millwright/events"
)

// catalogueLike is a blob of many chunks.
func catalogueLike(b byte) []byte { return bytes.Repeat([]byte{b, 'a', 't', 'a'}, 256<<10) }

// A watcher stores a catalogue again whenever it computes it again. Who reads it then must not find half
// of it gone.
func TestABlobIsReadWhileItIsStoredAgain(t *testing.T) {
	server := startServer(t)
	writer, reader := server.open(t, nil).Blobs(), server.open(t, func(c *Config) { c.ReadOnly = true }).Blobs()
	put(t, writer, catalogueLike('d'))
	ctx, cancel := context.WithCancel(t.Context())
	wrote := make(chan error, 1)
	go func() {
		for ctx.Err() == nil {
			if err := writer.Put(t.Context(), "catalog/x", catalogueLike('d')); err != nil {
				wrote <- err
				return
			}
		}
		wrote <- nil
	}()
	for range 50 {
		if data, err := reader.Get(t.Context(), "catalog/x"); err != nil || !bytes.Equal(data, catalogueLike('d')) {
			t.Fatalf("%d bytes, %v", len(data), err)
		}
	}
	cancel()
	if err := <-wrote; err != nil {
		t.Fatal(err)
	}
}

func TestABlobIsReplacedWhileItIsRead(t *testing.T) {
	server := startServer(t)
	writer := server.open(t, nil).Blobs()
	for name, blobs := range map[string]events.Blobs{"writer": writer, "reader": server.open(t, func(c *Config) { c.ReadOnly = true }).Blobs()} {
		t.Run(name, func(t *testing.T) {
			put(t, writer, catalogueLike('d'))
			blob, err := blobs.Open(t.Context(), "catalog/x")
			if err != nil {
				t.Fatal(err)
			}
			defer blob.Close()
			if _, err := io.ReadFull(blob, make([]byte, 1000)); err != nil {
				t.Fatal(err)
			}
			put(t, writer, catalogueLike('e'))
			if _, err := io.Copy(io.Discard, blob); !errors.Is(err, errReplaced) {
				t.Fatalf("the rest is read with %v", err)
			}
			if data, err := blobs.Get(t.Context(), "catalog/x"); err != nil || !bytes.Equal(data, catalogueLike('e')) {
				t.Fatalf("read anew: %d bytes, %v", len(data), err)
			}
			if err := writer.Delete(t.Context(), "catalog/x"); err != nil {
				t.Fatal(err)
			}
			if _, err := blobs.Get(t.Context(), "catalog/x"); !errors.Is(err, events.ErrNotFound) {
				t.Fatalf("deleted, it is read with %v", err)
			}
		})
	}
}

func put(t *testing.T, b events.Blobs, data []byte) {
	t.Helper()
	if err := b.Put(t.Context(), "catalog/x", data); err != nil {
		t.Fatal(err)
	}
}

func TestStoringWhatIsThereWritesNothing(t *testing.T) {
	s := startServer(t).open(t, nil)
	messages := func() uint64 {
		stream, err := s.js.Stream(t.Context(), (&readBlobs{s}).stream())
		if err != nil {
			t.Fatal(err)
		}
		return stream.CachedInfo().State.LastSeq
	}
	put(t, s.Blobs(), catalogueLike('d'))
	before := messages()
	put(t, s.Blobs(), catalogueLike('d'))
	if after := messages(); after != before {
		t.Fatalf("%d messages were written", after-before)
	}
	put(t, s.Blobs(), catalogueLike('e'))
	if got, err := s.Blobs().Get(t.Context(), "catalog/x"); err != nil || !bytes.Equal(got, catalogueLike('e')) {
		t.Fatalf("%d bytes, %v", len(got), err)
	}
}

// A description whose chunks are gone: its writer purged them when an acknowledgement did not come.
func TestABlobWhoseChunksAreGone(t *testing.T) {
	server := startServer(t)
	s, reader := server.open(t, nil), server.open(t, func(c *Config) { c.ReadOnly = true })
	put(t, s.Blobs(), catalogueLike('d'))
	stream, err := s.js.Stream(t.Context(), (&readBlobs{s}).stream())
	if err != nil {
		t.Fatal(err)
	}
	if err := stream.Purge(t.Context(), jetstream.WithPurgeSubject(fmt.Sprintf("$O.%s.C.>", s.cfg.bucket()))); err != nil {
		t.Fatal(err)
	}
	for _, b := range []events.Blobs{s.Blobs(), reader.Blobs()} {
		if _, err := b.Get(t.Context(), "catalog/x"); !errors.Is(err, events.ErrDamaged) {
			t.Fatalf("it is read with %v", err)
		}
	}
	put(t, s.Blobs(), catalogueLike('d'))
	if got, err := reader.Blobs().Get(t.Context(), "catalog/x"); err != nil || !bytes.Equal(got, catalogueLike('d')) {
		t.Fatalf("stored again: %d bytes, %v", len(got), err)
	}
}

// busyServer is a server of whose answers none arrive while it is busy.
type busyServer struct {
	*server
	busy sync.Mutex
}

type busyConn struct {
	net.Conn
	server *busyServer
}

func (s *busyServer) InProcessConn() (net.Conn, error) {
	c, err := s.server.InProcessConn()
	return busyConn{c, s}, err
}

func (c busyConn) Read(into []byte) (int, error) {
	n, err := c.Conn.Read(into)
	c.server.busy.Lock()
	defer c.server.busy.Unlock()
	return n, err
}

// TestAReaderAsksAgainWhenNoAnswerComes within its time: nobody would begin anew for it, and the watcher's
// next list takes as long.
func TestAReaderAsksAgainWhenNoAnswerComes(t *testing.T) {
	server := startServer(t)
	if err := server.open(t, nil).Blobs().Put(t.Context(), "a", []byte("text")); err != nil {
		t.Fatal(err)
	}
	busy := &busyServer{server: server}
	const timeout = 400 * time.Millisecond
	reader := server.open(t, func(c *Config) { c.Server, c.ReadOnly, c.RequestTimeout = busy, true, timeout }).Blobs()
	watcher := server.open(t, func(c *Config) { c.Server, c.RequestTimeout = busy, timeout }).Blobs()
	questions := map[string]func() (string, error){
		"get": func() (string, error) {
			data, err := reader.Get(t.Context(), "a")
			return string(data), err
		},
		"list": func() (string, error) {
			names, err := reader.List(t.Context(), "")
			return strings.Join(names, ","), err
		},
		"list of the watcher": func() (string, error) {
			names, err := watcher.List(t.Context(), "")
			return strings.Join(names, ","), err
		},
	}
	for name, want := range map[string]string{"get": "text", "list": "a", "list of the watcher": "a"} {
		busy.busy.Lock()
		time.AfterFunc(timeout*5/2, busy.busy.Unlock)
		if got, err := questions[name](); err != nil || got != want {
			t.Errorf("%s: %q, %v, want %q", name, got, err, want)
		}
	}
}
