package embedded_test

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"millwright/events"
	"millwright/events/natsbus"
	"millwright/events/natsbus/embedded"
)

func stop(t *testing.T, s *embedded.Server) {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), 30*time.Second)
	defer cancel()
	if err := s.Stop(ctx); err != nil {
		t.Fatal(err)
	}
}

func open(t *testing.T, cfg natsbus.Config) *natsbus.Stream {
	t.Helper()
	cfg.Cluster, cfg.LogID = "test", "0123456789abcdef"
	s, err := natsbus.Open(t.Context(), cfg)
	if err != nil {
		t.Fatal(err)
	}
	return s
}

func TestAServerStartedAgainHasItsMessagesAndBlobs(t *testing.T) {
	dir := t.TempDir()
	for i := range 3 {
		server, err := embedded.Start(dir)
		if err != nil {
			t.Fatal(err)
		}
		s := open(t, natsbus.Config{Server: server})
		state, err := s.State(t.Context())
		if err != nil || state.Last != uint64(i) {
			t.Fatalf("start %d: %+v, %v", i, state, err)
		}
		if data, err := s.Blobs().Get(t.Context(), "kept"); i > 0 && (err != nil || string(data) != "blob") {
			t.Fatalf("start %d: blob %q, %v", i, data, err)
		}
		if err := errors.Join(s.Publish(t.Context(), []byte("x")), s.Flush(t.Context()), s.Blobs().Put(t.Context(), "kept", []byte("blob"))); err != nil {
			t.Fatal(err)
		}
		_ = s.Close()
		stop(t, server)
	}
}

func TestWithoutListenThereIsNoPort(t *testing.T) {
	server, err := embedded.Start(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	defer stop(t, server)
	if server.URL() != "" {
		t.Fatalf("listens on %s", server.URL())
	}
}

func TestListenIsOnLoopbackAndForOtherProcesses(t *testing.T) {
	server, err := embedded.Start(t.TempDir(), embedded.Options{Listen: true})
	if err != nil {
		t.Fatal(err)
	}
	defer stop(t, server)
	if !strings.HasPrefix(server.URL(), "nats://127.0.0.1:") {
		t.Fatalf("listens on %s", server.URL())
	}
	outside, inside := open(t, natsbus.Config{URL: server.URL()}), open(t, natsbus.Config{Server: server})
	defer outside.Close()
	defer inside.Close()
	if err := errors.Join(outside.Publish(t.Context(), []byte("hello")), outside.Flush(t.Context())); err != nil {
		t.Fatal(err)
	}
	enough := errors.New("enough")
	err = inside.Consume(t.Context(), 1, func(m events.Message) error {
		if string(m.Data) != "hello" {
			t.Errorf("got %q", m.Data)
		}
		return enough
	})
	if !errors.Is(err, enough) {
		t.Fatal(err)
	}
}

func TestStartSaysThatTheDirectoryIsNone(t *testing.T) {
	file := filepath.Join(t.TempDir(), "file")
	if err := os.WriteFile(file, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	if server, err := embedded.Start(filepath.Join(file, "nats")); err == nil {
		stop(t, server)
		t.Fatal("started on a file")
	} else if !strings.Contains(err.Error(), file) {
		t.Fatalf("got %v", err)
	}
}
