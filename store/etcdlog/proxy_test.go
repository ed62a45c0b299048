package etcdlog_test

import (
	"errors"
	"net"
	"path/filepath"
	"strings"
	"sync"
	"testing"
)

// proxy stands between clients and etcd. It can cut all connections, and swallow what etcd answers.
type proxy struct {
	endpoint string
	target   string

	mu    sync.Mutex
	conns map[net.Conn]bool
	// mute holds answers back; they are lost at the next cut.
	mute bool
	wg   sync.WaitGroup
}

func startProxy(t testing.TB, endpoint string) *proxy {
	t.Helper()
	path := filepath.Join(t.TempDir(), "p.sock")
	listener, err := net.Listen("unix", path)
	if err != nil {
		t.Fatal(err)
	}
	p := &proxy{endpoint: "unix://" + path, target: strings.TrimPrefix(endpoint, "unix://"), conns: map[net.Conn]bool{}}
	p.wg.Go(func() { p.accept(listener) })
	t.Cleanup(func() {
		_ = listener.Close()
		p.cut()
		p.wg.Wait()
	})
	return p
}

func (p *proxy) accept(listener net.Listener) {
	for {
		client, err := listener.Accept()
		if err != nil {
			return
		}
		server, err := net.Dial("unix", p.target)
		if err != nil {
			_ = client.Close()
			continue
		}
		p.mu.Lock()
		p.conns[client], p.conns[server] = true, true
		p.mu.Unlock()
		p.wg.Go(func() { p.copy(server, client, func() bool { return false }) })
		p.wg.Go(func() { p.copy(client, server, p.muted) })
	}
}

// copy forwards until an end closes, dropping what passes while muted.
func (p *proxy) copy(to, from net.Conn, drop func() bool) {
	defer func() { _, _ = to.Close(), from.Close() }()
	buf := make([]byte, 32<<10)
	for {
		n, err := from.Read(buf)
		if n > 0 && !drop() {
			if _, err := to.Write(buf[:n]); err != nil {
				return
			}
		}
		if err != nil {
			return
		}
	}
}

func (p *proxy) muted() bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.mute
}

func (p *proxy) setMute(on bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.mute = on
}

// cut breaks all connections; clients dial again.
func (p *proxy) cut() {
	p.mu.Lock()
	defer p.mu.Unlock()
	for c := range p.conns {
		_ = c.Close()
		delete(p.conns, c)
	}
}

func wantError(t testing.TB, err, want error) {
	t.Helper()
	if !errors.Is(err, want) {
		t.Fatalf("got error %v, want %v", err, want)
	}
}
