package main

import (
	"errors"
	"fmt"
	"net/url"
	"path/filepath"
	"time"

	"go.etcd.io/etcd/server/v3/embed"
)

// etcdServer is the cluster's embedded etcd, reachable on loopback only.
type etcdServer struct {
	etcd     *embed.Etcd
	endpoint string
}

const etcdStartTimeout = 30 * time.Second

func startEtcd(dir string, fsync bool) (*etcdServer, error) {
	cfg := embed.NewConfig()
	cfg.Dir = dir
	cfg.LogLevel = "error"
	cfg.LogOutputs = []string{filepath.Join(filepath.Dir(dir), "logs", "etcd.log")}
	cfg.UnsafeNoFsync = !fsync
	cfg.QuotaBackendBytes = 4 << 30
	cfg.AutoCompactionMode, cfg.AutoCompactionRetention = "periodic", "5m"
	cfg.EnableGRPCGateway = false
	// Left at 0, every request counts as slow: etcd would write each of them out, if only for the log.
	cfg.WarningUnaryRequestDuration = embed.DefaultWarningUnaryRequestDuration
	any := url.URL{Scheme: "http", Host: "127.0.0.1:0"}
	cfg.ListenClientUrls, cfg.AdvertiseClientUrls = []url.URL{any}, []url.URL{any}
	cfg.ListenPeerUrls, cfg.AdvertisePeerUrls = []url.URL{any}, []url.URL{any}
	cfg.InitialCluster = cfg.InitialClusterFromName(cfg.Name)
	e, err := embed.StartEtcd(cfg)
	if err != nil {
		return nil, fmt.Errorf("start etcd: %w", err)
	}
	select {
	case <-e.Server.ReadyNotify():
	case err := <-e.Err():
		return nil, fmt.Errorf("start etcd: %w", err)
	case <-time.After(etcdStartTimeout):
		e.Close()
		return nil, errors.New("start etcd: not ready in time")
	}
	return &etcdServer{etcd: e, endpoint: "http://" + e.Clients[0].Addr().String()}, nil
}

func (s *etcdServer) close() { s.etcd.Close() }
