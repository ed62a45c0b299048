package embedded_test

import (
	"bytes"
	"context"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"millwright/events/natsbus/embedded"
)

// TestAServerThatCannotStoreIsGivenUp: a stream that met a full disk takes nothing more when there is room
// again, until the server is started anew.
func TestAServerThatCannotStoreIsGivenUp(t *testing.T) {
	dir := t.TempDir()
	if err := syscall.Mount("tmpfs", dir, "tmpfs", 0, "size=20m,mode=0700"); err != nil {
		t.Skipf("a small file system cannot be mounted here: %v", err)
	}
	defer func() {
		if err := syscall.Unmount(dir, 0); err != nil {
			t.Error(err)
		}
	}()
	s, err := embedded.Start(dir, embedded.Options{LookEvery: 100 * time.Millisecond})
	if err != nil {
		t.Fatal(err)
	}
	publish, stop := publisher(t, s)
	if err := publish(); err != nil {
		t.Fatal(err)
	}
	watched := make(chan error, 1)
	go func() { watched <- s.Watch(t.Context()) }()
	ballast := filepath.Join(dir, "ballast")
	fill(t, ballast)
	for range 100 {
		if publish() != nil {
			break
		}
	}
	if err := os.Remove(ballast); err != nil {
		t.Fatal(err)
	}
	select {
	case err := <-watched:
		if err == nil || !strings.Contains(err.Error(), "no space left on device") {
			t.Errorf("given up with %v", err)
		}
	case <-time.After(30 * time.Second):
		t.Error("not given up")
	}
	if publish() == nil {
		t.Error("it stores again by itself: there is no need to give it up")
	}
	stop()
	if s, err = embedded.Start(dir, embedded.Options{LookEvery: 100 * time.Millisecond}); err != nil {
		t.Fatal(err)
	}
	publish, stop = publisher(t, s)
	defer stop()
	if err := publish(); err != nil {
		t.Errorf("started anew: %v", err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), time.Second)
	defer cancel()
	if err := s.Watch(ctx); err != nil {
		t.Errorf("started anew: %v", err)
	}
}

// publisher stores a message at each call, in a stream that it makes if need be. stop stops it and the
// server.
func publisher(t *testing.T, s *embedded.Server) (publish func() error, stop func()) {
	t.Helper()
	nc, err := nats.Connect("", nats.InProcessServer(s))
	if err != nil {
		t.Fatal(err)
	}
	js, err := jetstream.New(nc)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := js.CreateOrUpdateStream(t.Context(), jetstream.StreamConfig{Name: "S", Subjects: []string{"s"}}); err != nil {
		t.Fatal(err)
	}
	publish = func() error {
		ctx, cancel := context.WithTimeout(t.Context(), 2*time.Second)
		defer cancel()
		_, err := js.Publish(ctx, "s", make([]byte, 1000), jetstream.WithRetryAttempts(0))
		return err
	}
	return publish, func() {
		nc.Close()
		if err := s.Stop(context.Background()); err != nil {
			t.Error(err)
		}
	}
}

// fill writes a file until there is no room for another byte.
func fill(t *testing.T, path string) {
	t.Helper()
	f, err := os.Create(path)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	for _, size := range []int{1 << 20, 4 << 10, 1} {
		for err = nil; err == nil; {
			_, err = f.Write(bytes.Repeat([]byte{1}, size))
		}
		if !errors.Is(err, syscall.ENOSPC) {
			t.Fatal(err)
		}
	}
}
