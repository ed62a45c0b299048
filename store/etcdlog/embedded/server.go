// Package embedded runs an etcd server inside the process: the log of `millwright all`, and of tests.
//
// Guarantees: every write is fsynced; it listens only on two unix sockets that only this user can open; the
// same directory can be started again. History is compacted by the log's owner, not by a timer. Not
// guaranteed: replication. It is one member.
package embedded

import (
	"cmp"
	"errors"
	"fmt"
	"net/url"
	"os"
	"path/filepath"
	"sync/atomic"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"
	"go.etcd.io/etcd/server/v3/embed"
	"go.etcd.io/etcd/server/v3/etcdserver/api/v3client"
	"go.uber.org/zap"
	"gopkg.in/natefinch/lumberjack.v2"
)

// QuotaBytes is the size of the database at which etcd stops accepting writes, unless Options name another.
const QuotaBytes = 8 << 30

// startTimeout bounds the start, recovery of a large log included.
const startTimeout = 60 * time.Second

// Server is a running etcd.
type Server struct {
	// Client calls the server without a socket. Close closes it.
	Client *clientv3.Client
	// Endpoints are for other processes of the same user.
	Endpoints []string

	etcd    *embed.Etcd
	sockets string
	lock    *os.File
	log     *zap.Logger
	logFile *lumberjack.Logger
	// closing: what etcd calls an error from now on is that it stops.
	closing atomic.Bool
}

// Options of a Server.
type Options struct {
	// QuotaBytes is the size of the database at which etcd stops accepting writes; 0 means the constant of
	// this name.
	QuotaBytes int64
	// Log gets etcd's errors while it runs, at most ten a minute that read alike, and what it ends the
	// process for, which may find no room in etcd.log; nil drops them.
	Log func(level, message string, fields map[string]any)
}

// Start runs etcd on dir, which it creates. Warnings and errors of etcd go to etcd.log there.
func Start(dir string, options ...Options) (*Server, error) {
	o := Options{QuotaBytes: QuotaBytes}
	for _, given := range options {
		o.QuotaBytes = cmp.Or(given.QuotaBytes, o.QuotaBytes)
		if given.Log != nil {
			o.Log = given.Log
		}
	}
	s, err := start(dir, o)
	if err != nil {
		return nil, fmt.Errorf("start etcd in %s: %w", dir, err)
	}
	return s, nil
}

func start(dir string, o Options) (_ *Server, err error) {
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return nil, err
	}
	s := &Server{}
	defer func() {
		if err != nil {
			s.release()
		}
	}()
	if s.lock, err = lock(filepath.Join(dir, "lock")); err != nil {
		return nil, err
	}
	if s.sockets, err = socketDir(dir); err != nil {
		return nil, err
	}
	s.openLog(filepath.Join(dir, "etcd.log"), o.Log)
	if s.etcd, err = embed.StartEtcd(s.config(dir, o)); err != nil {
		return nil, err
	}
	select {
	case <-s.etcd.Server.ReadyNotify():
	case err = <-s.etcd.Err():
	case <-time.After(startTimeout):
		err = errors.New("not ready in time")
	}
	if err != nil {
		s.etcd.Close()
		return nil, err
	}
	s.Client = v3client.New(s.etcd.Server)
	s.Client.Maintenance = maintenance{s.Client.Maintenance, s.etcd.Server}
	s.Endpoints = []string{"unix://" + socket(s.sockets, "client")}
	return s, nil
}

func (s *Server) config(dir string, o Options) *embed.Config {
	cfg := embed.NewConfig()
	cfg.Name = "millwright"
	cfg.Dir = filepath.Join(dir, "data")
	cfg.ListenClientUrls = []url.URL{clientURL(socket(s.sockets, "client"))}
	cfg.ListenPeerUrls = []url.URL{peerURL(socket(s.sockets, "peer"))}
	// The member's name is never dialled, but must be the same wherever the directory is mounted.
	cfg.AdvertiseClientUrls = []url.URL{{Scheme: "http", Host: "millwright:2379"}}
	cfg.AdvertisePeerUrls = []url.URL{{Scheme: "http", Host: "millwright:2380"}}
	cfg.InitialCluster = cfg.Name + "=" + cfg.AdvertisePeerUrls[0].String()
	cfg.QuotaBackendBytes = o.QuotaBytes
	cfg.AutoCompactionRetention = "0" // off: Log.Compact does it
	cfg.UnsafeNoFsync = false
	// The write-ahead log makes writes durable; this is how often they reach the database file. The default
	// of 100 ms causes long commits, for which appends have to wait.
	cfg.BackendBatchInterval = 20 * time.Millisecond
	// Left at 0, every request counts as slow: etcd would write each of them out, and log it.
	cfg.WarningUnaryRequestDuration = embed.DefaultWarningUnaryRequestDuration
	cfg.ZapLoggerBuilder = embed.NewZapLoggerBuilder(s.log)
	return cfg
}

// Close stops the server. Its data remain.
func (s *Server) Close() error {
	s.closing.Store(true)
	_ = s.Client.Close() // it always returns the error that its context has ended
	s.etcd.Close()
	s.release()
	return nil
}

// release releases what the process holds besides etcd.
func (s *Server) release() {
	if s.logFile != nil {
		_ = s.logFile.Close()
	}
	if s.lock != nil {
		_ = s.lock.Close()
	}
}
