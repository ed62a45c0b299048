package embedded

import (
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"path/filepath"
	"sync"
	"time"
)

// Dir is the data directory of a server, for other processes of the same user: it connects to the server on
// which ServeUnix was called with the same directory. It implements natsbus.InProcess.
type Dir string

const dialTimeout = 3 * time.Second

// InProcessConn connects to the server over its unix socket.
func (d Dir) InProcessConn() (net.Conn, error) {
	conn, err := net.DialTimeout("unix", d.socket(), dialTimeout)
	if err != nil {
		return nil, fmt.Errorf("connect to NATS in %s: %w", string(d), err)
	}
	return conn, nil
}

// socketPathMax keeps the path within the 108 bytes that Linux allows.
const socketPathMax = 100

// socket lies in the directory, or in the temporary directory where the path would be too long.
func (d Dir) socket() string {
	path, err := filepath.Abs(filepath.Join(string(d), "nats.sock"))
	if err == nil && len(path) <= socketPathMax {
		return path
	}
	sum := sha256.Sum256([]byte(path))
	return filepath.Join(os.TempDir(), "millwright-nats-"+hex.EncodeToString(sum[:8])+".sock")
}

// UnixListener passes connections of a unix socket to the server. Close ends it and its connections.
type UnixListener struct {
	listener net.Listener
	server   *Server
	wait     sync.WaitGroup

	mu     sync.Mutex
	closed bool
	conns  map[net.Conn]bool
}

// ServeUnix lets other processes of this user connect through a socket in dir that only they can open.
func (s *Server) ServeUnix(dir string) (*UnixListener, error) {
	path := Dir(dir).socket()
	if err := os.Remove(path); err != nil && !errors.Is(err, os.ErrNotExist) {
		return nil, fmt.Errorf("listen on %s: %w", path, err)
	}
	l, err := net.Listen("unix", path)
	if err != nil {
		return nil, fmt.Errorf("listen on %s: %w", path, err)
	}
	if err := os.Chmod(path, 0o600); err != nil {
		_ = l.Close()
		return nil, fmt.Errorf("listen on %s: %w", path, err)
	}
	u := &UnixListener{listener: l, server: s, conns: map[net.Conn]bool{}}
	u.wait.Go(u.accept)
	return u, nil
}

func (u *UnixListener) accept() {
	for {
		client, err := u.listener.Accept()
		if err != nil {
			return
		}
		server, err := u.server.InProcessConn()
		if err != nil {
			_ = client.Close()
			continue
		}
		if !u.keep(client, server) {
			return
		}
		u.wait.Go(func() { u.relay(client, server) })
		u.wait.Go(func() { u.relay(server, client) })
	}
}

// keep remembers the connections, so that Close can end them; it closes them if that has begun.
func (u *UnixListener) keep(conns ...net.Conn) bool {
	u.mu.Lock()
	defer u.mu.Unlock()
	for _, c := range conns {
		if u.closed {
			_ = c.Close()
		} else {
			u.conns[c] = true
		}
	}
	return !u.closed
}

func (u *UnixListener) relay(to, from net.Conn) {
	_, _ = io.Copy(to, from)
	_ = to.Close()
	_ = from.Close()
	u.mu.Lock()
	defer u.mu.Unlock()
	delete(u.conns, to)
	delete(u.conns, from)
}

// Close stops listening, ends all connections and waits for them.
func (u *UnixListener) Close() error {
	err := u.listener.Close()
	u.mu.Lock()
	u.closed = true
	for c := range u.conns {
		_ = c.Close()
	}
	u.mu.Unlock()
	u.wait.Wait()
	return err
}
