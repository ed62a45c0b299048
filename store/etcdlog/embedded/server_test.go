package embedded_test

import (
	"context"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"

	clientv3 "go.etcd.io/etcd/client/v3"

	"millwright/store/etcdlog/embedded"
)

func TestRestartKeepsData(t *testing.T) {
	dir, ctx := t.TempDir(), context.Background()
	s := start(t, dir)
	if _, err := s.Client.Put(ctx, "k", "v"); err != nil {
		t.Fatal(err)
	}
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	s = start(t, dir)
	defer s.Close()
	resp, err := s.Client.Get(ctx, "k")
	if err != nil || len(resp.Kvs) != 1 || string(resp.Kvs[0].Value) != "v" {
		t.Fatalf("after restart: %v, %v", resp, err)
	}
}

func TestEndpointsServeOtherProcesses(t *testing.T) {
	for name, dir := range map[string]string{
		"short path":                 t.TempDir(),
		"path too long for a socket": t.TempDir() + strings.Repeat("/long-name", 12),
	} {
		t.Run(name, func(t *testing.T) {
			s := start(t, dir)
			defer s.Close()
			c, err := clientv3.New(clientv3.Config{Endpoints: s.Endpoints})
			if err != nil {
				t.Fatal(err)
			}
			defer c.Close()
			if _, err := c.Put(context.Background(), "k", "v"); err != nil {
				t.Fatal(err)
			}
			if resp, err := s.Client.Get(context.Background(), "k"); err != nil || resp.Count != 1 {
				t.Fatalf("read in process: %v, %v", resp, err)
			}
		})
	}
}

// TestRequestsAreNotLogged: of what other processes ask for, only what is slow belongs into etcd.log.
func TestRequestsAreNotLogged(t *testing.T) {
	dir := t.TempDir()
	s := start(t, dir)
	defer s.Close()
	c, err := clientv3.New(clientv3.Config{Endpoints: s.Endpoints})
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	for range 20 {
		if _, err := c.Put(context.Background(), "k", "v"); err != nil {
			t.Fatal(err)
		}
	}
	logged, err := os.ReadFile(filepath.Join(dir, "etcd.log"))
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		t.Fatal(err)
	}
	if n := strings.Count(string(logged), "request stats"); n >= 20 {
		t.Errorf("%d of 20 requests are in etcd.log:\n%s", n, logged)
	}
}

// TestAStopIsNoError: etcd calls it an error that its listeners are closed.
func TestAStopIsNoError(t *testing.T) {
	s, err := embedded.Start(t.TempDir(), embedded.Options{Log: func(level, message string, fields map[string]any) {
		t.Errorf("%s: %s %v", level, message, fields)
	}})
	if err != nil {
		t.Fatal(err)
	}
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
}

func TestDirectoryInUseIsRefused(t *testing.T) {
	dir := t.TempDir()
	s := start(t, dir)
	defer s.Close()
	if other, err := embedded.Start(dir); err == nil {
		other.Close()
		t.Fatal("two servers on one directory")
	}
}

func start(t *testing.T, dir string) *embedded.Server {
	t.Helper()
	s, err := embedded.Start(dir)
	if err != nil {
		t.Fatal(err)
	}
	return s
}
