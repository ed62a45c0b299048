package main

import (
	"context"
	"fmt"

	"github.com/rs/zerolog"
	clientv3 "go.etcd.io/etcd/client/v3"

	"millwright/events/natsbus"
	"millwright/services/durability"
	"millwright/services/internal/process"
	"millwright/services/internal/selfcheck"
	"millwright/store/etcdlog"
)

// addSelfCheck has the process that leads lifecycle take a recorded decision again from time to time.
func (b *builder) addSelfCheck(steps *process.Steps, logger zerolog.Logger) error {
	if b.settings.ReplayCheckInterval == 0 {
		return nil
	}
	log, ok := b.log.(selfcheck.Log)
	if !ok {
		return fmt.Errorf("the log, a %T, has no checkpoints", b.log)
	}
	checker := selfcheck.New(selfcheck.Config{Log: log, Stream: b.stream, Every: b.settings.ReplayCheckInterval, Logger: logger, Registerer: b.registry})
	steps.Beside(checker.Run)
	return nil
}

// watchServers looks at the settings of an external etcd and NATS. Embedded ones are set here.
func (b *builder) watchServers(stream *natsbus.Stream, logger zerolog.Logger) error {
	s := b.settings
	if s.DataDir != "" {
		return nil
	}
	cfg := durability.Config{EtcdMetrics: s.EtcdMetricsURLs, NATSMonitoring: s.NATSMonitoringURLs,
		EtcdMembers: func(ctx context.Context) (int, error) { return etcdMembers(ctx, s) },
		StreamReplicas: func(ctx context.Context) (int, error) {
			p, err := stream.Placement(ctx)
			return p.Replicas, err
		}}
	var err error
	if cfg.EtcdClient, err = s.EtcdHTTP(); err != nil {
		return fmt.Errorf("etcd: %w", err)
	}
	if cfg.NATSClient, err = s.NATSHTTP(); err != nil {
		return fmt.Errorf("NATS: %w", err)
	}
	if len(cfg.EtcdMetrics) == 0 {
		cfg.EtcdMetrics = durability.EtcdPages(s.EtcdEndpoints)
	}
	if len(cfg.NATSMonitoring) == 0 {
		cfg.NATSMonitoring = durability.NATSPages(s.NATSURL, s.NATSCAFile != "")
	}
	b.parts.Background = append(b.parts.Background, durability.NewWatch(cfg, logger, b.registry).Run)
	return nil
}

// etcdMembers asks by a connection of its own, which is rare.
func etcdMembers(ctx context.Context, s *process.Settings) (n int, err error) {
	security, err := s.Etcd()
	if err != nil {
		return 0, err
	}
	var client *clientv3.Client
	if client, err = etcdlog.Dial(etcdlog.DialConfig{Endpoints: s.EtcdEndpoints, Security: security}); err != nil {
		return 0, err
	}
	defer client.Close()
	return etcdlog.Members(ctx, client)
}
