// Package embedded runs a NATS server with JetStream inside the process, on a directory.
//
// It listens nowhere unless asked to: the process itself connects in memory (natsbus.Config.Server). With
// Options.Listen it also listens on one TCP port of the loopback interface, for other processes on the host.
// A server started again on the same directory has the data of the one before. Tests use it unchanged.
package embedded

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"time"

	"github.com/nats-io/nats-server/v2/server"
)

// Options of a server. The zero value listens nowhere.
type Options struct {
	// Listen opens Port (0: a free one) on the loopback interface.
	Listen bool
	Port   int
	// MaxStoreBytes bounds the disk used; default 64 GiB, which is more than all default bounds together.
	MaxStoreBytes int64
	// LookEvery is how often Watch looks; 0 means 10 s.
	LookEvery time.Duration
	// Log gets the server's warnings and errors; nil drops them.
	Log func(level, message string)
}

// MaxPayloadBytes of one message: an observation of the largest object fits with room to spare.
const MaxPayloadBytes = 8 << 20

// Server in this process.
type Server struct {
	nats      *server.Server
	lookEvery time.Duration
}

// Start runs a server that keeps its streams under dir, and returns when it is ready.
func Start(dir string, options ...Options) (*Server, error) {
	var o Options
	if len(options) > 0 {
		o = options[0]
	}
	err := os.MkdirAll(dir, 0o700) // the server itself would only log that it cannot
	if err != nil {
		return nil, fmt.Errorf("start nats on %s: %w", dir, err)
	}
	nats, err := server.NewServer(o.server(dir))
	if err != nil {
		return nil, fmt.Errorf("start nats on %s: %w", dir, err)
	}
	if o.Log != nil {
		nats.SetLogger(logger(o.Log), false, false)
	}
	nats.Start()
	if !nats.ReadyForConnections(30 * time.Second) {
		nats.Shutdown()
		return nil, fmt.Errorf("start nats on %s: not ready in 30 s", dir)
	}
	if !nats.JetStreamEnabled() {
		nats.Shutdown()
		return nil, fmt.Errorf("start nats on %s: no JetStream: is the directory writable?", dir)
	}
	return &Server{nats, cmp.Or(o.LookEvery, lookEvery)}, nil
}

func (o Options) server(dir string) *server.Options {
	if o.MaxStoreBytes == 0 {
		o.MaxStoreBytes = 64 << 30
	}
	so := &server.Options{
		ServerName: "millwright", Host: "127.0.0.1", Port: o.Port, DontListen: !o.Listen,
		JetStream: true, StoreDir: dir, JetStreamMaxStore: o.MaxStoreBytes, JetStreamMaxMemory: 64 << 20,
		MaxPayload: MaxPayloadBytes, MaxPending: 128 << 20, NoSigs: true, NoLog: o.Log == nil,
	}
	if o.Port == 0 {
		so.Port = server.RANDOM_PORT
	}
	return so
}

// InProcessConn returns an in-memory connection.
func (s *Server) InProcessConn() (net.Conn, error) { return s.nats.InProcessConn() }

// URL for other processes on this host; "" if the server does not listen.
func (s *Server) URL() string {
	if addr, ok := s.nats.Addr().(*net.TCPAddr); ok {
		return "nats://" + addr.String()
	}
	return ""
}

// Stop ends the server, waiting for its files until ctx ends. Clients see a lost connection.
func (s *Server) Stop(ctx context.Context) error {
	stopped := make(chan struct{})
	go func() {
		defer close(stopped)
		s.nats.Shutdown()
		s.nats.WaitForShutdown()
	}()
	select {
	case <-stopped:
		return nil
	case <-ctx.Done():
		return errors.Join(errors.New("stop nats"), ctx.Err())
	}
}
