package main

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"path/filepath"
	"slices"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/rs/zerolog"
	clientv3 "go.etcd.io/etcd/client/v3"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"

	"millwright/events/natsbus"
	natsembedded "millwright/events/natsbus/embedded"
	"millwright/services/internal/clock"
	"millwright/services/internal/host/fold"
	"millwright/services/internal/identity"
	"millwright/services/internal/kube"
	"millwright/services/internal/process"
	"millwright/services/transport"
	"millwright/services/version"
	"millwright/store"
	"millwright/store/etcdlog"
	etcdembedded "millwright/store/etcdlog/embedded"
)

// natsStopTimeout bounds the stop of the embedded NATS server.
const natsStopTimeout = 10 * time.Second

// closers are closed in reverse order of opening.
type closers []func() error

func (c *closers) addCloser(fn func() error) { *c = append(*c, fn) }

func (c *closers) close() error {
	var errs []error
	for _, fn := range slices.Backward(*c) {
		errs = append(errs, fn())
	}
	return errors.Join(errs...)
}

// openLog opens the event log, in an embedded etcd if there is a data directory.
func openLog(ctx context.Context, s *process.Settings, c *closers, logger zerolog.Logger) (*etcdlog.Log, *etcdlog.Elector, error) {
	client, err := dialEtcd(s, c, logger)
	if err != nil {
		return nil, nil, err
	}
	logger.Info().Strs("etcd", s.EtcdEndpoints).Str("data_dir", s.DataDir).Msg("opening event log")
	var log *etcdlog.Log
	err = untilConnected(ctx, logger, "open event log", func() error {
		log, err = etcdlog.Open(ctx, etcdlog.Config{Client: client, Cluster: s.ClusterName})
		return err
	})
	if err != nil {
		return nil, nil, err
	}
	c.addCloser(log.Close)
	elector := newElector(client, s, logger)
	if s.DataDir == "" {
		return log, elector, nil
	}
	return log, elector, elector.Depose(ctx)
}

// newElector uses leases of another length where no other process can be a candidate.
func newElector(client *clientv3.Client, s *process.Settings, logger zerolog.Logger) *etcdlog.Elector {
	var ttl []time.Duration
	if s.DataDir != "" {
		ttl = append(ttl, etcdlog.LeaseTTLAlone)
	}
	e := etcdlog.NewElector(client, s.ClusterName, ttl...)
	e.Overlooked = func(service, key string) {
		logger.Warn().Str("service", service).Str("key", key).Msg("stood behind a candidate that was gone")
	}
	return e
}

func dialEtcd(s *process.Settings, c *closers, logger zerolog.Logger) (*clientv3.Client, error) {
	if s.DataDir != "" {
		server, err := etcdembedded.Start(filepath.Join(s.DataDir, "etcd"), etcdembedded.Options{QuotaBytes: s.EtcdQuotaBytes,
			Log: func(level, message string, fields map[string]any) {
				logger.Error().Str("severity", level).Str("text", message).Interface("fields", fields).Msg("embedded etcd")
			}})
		if err != nil {
			return nil, err
		}
		c.addCloser(server.Close)
		return server.Client, nil
	}
	security, err := s.Etcd()
	if err != nil {
		return nil, err
	}
	client, err := etcdlog.Dial(etcdlog.DialConfig{Endpoints: s.EtcdEndpoints, Security: security})
	if err != nil {
		return nil, err
	}
	c.addCloser(client.Close)
	return client, nil
}

// openStream opens the observation stream, in an embedded NATS, which it returns too, if there is a data
// directory. A process without a watcher only reads.
func openStream(ctx context.Context, s *process.Settings, readOnly bool, logID string, state *fold.State, c *closers, logger zerolog.Logger) (*natsbus.Stream, *natsembedded.Server, error) {
	cfg := natsbus.Config{URL: s.NATSURL, Cluster: s.ClusterName, LogID: logID, Name: "millwright " + s.Instance(),
		Security: s.NATS(), ReadOnly: readOnly, MinSequence: state.HighestPosition,
		Replicas: s.NATSReplicas, MaxAge: s.NATSMaxAge, MaxBytes: s.NATSStreamMaxBytes, MaxBlobBytes: s.NATSBucketMaxBytes}
	var server *natsembedded.Server
	if s.DataDir != "" {
		var err error
		if server, err = startNATS(filepath.Join(s.DataDir, "nats"), c, logger); err != nil {
			return nil, nil, err
		}
		cfg.Server, cfg.Replicas = server, 1
	}
	logger.Info().Str("nats", transport.Redacted(s.NATSURL)).Str("data_dir", s.DataDir).Msg("opening observation stream")
	var stream *natsbus.Stream
	err := untilConnected(ctx, logger, "open observation stream", func() (err error) {
		stream, err = natsbus.Open(ctx, cfg)
		return err
	})
	if err != nil {
		return nil, nil, err
	}
	c.addCloser(stream.Close)
	return stream, server, nil
}

func startNATS(dir string, c *closers, logger zerolog.Logger) (*natsembedded.Server, error) {
	server, err := natsembedded.Start(dir, natsembedded.Options{Log: func(level, message string) {
		logger.Warn().Str("severity", level).Str("text", message).Msg("embedded nats")
	}})
	if err != nil {
		return nil, err
	}
	c.addCloser(func() error {
		ctx, cancel := context.WithTimeout(context.Background(), natsStopTimeout)
		defer cancel()
		return server.Stop(ctx)
	})
	listener, err := server.ServeUnix(dir)
	if err != nil {
		return nil, err
	}
	c.addCloser(listener.Close)
	return server, nil
}

// connectRetry is how often a server that does not answer is tried again.
const connectRetry = time.Second

// untilConnected retries until it works, ctx ends, or the error is not one that waiting helps against.
func untilConnected(ctx context.Context, logger zerolog.Logger, what string, try func() error) error {
	for {
		err := try()
		if err == nil || ctx.Err() != nil || isFinal(err) {
			return err
		}
		logger.Warn().Err(err).Str("what", what).Dur("retry_in", connectRetry).Msg("not connected yet")
		if clock.Sleep(ctx, connectRetry) != nil {
			return fmt.Errorf("%s: %w", what, err)
		}
	}
}

// isFinal: the server did answer, and its answer will not change.
func isFinal(err error) bool {
	return errors.Is(err, store.ErrForeignLog) || errors.Is(err, identity.ErrForeign) || errors.Is(err, store.ErrCorrupt)
}

// kubeConfig is of clients that measure their requests, and give up those that nobody answers.
func kubeConfig(s *process.Settings, registry prometheus.Registerer) (*rest.Config, error) {
	cfg, err := clientcmd.BuildConfigFromFlags("", s.Kubeconfig)
	if err != nil {
		return nil, fmt.Errorf("read kubeconfig %q: %w", s.Kubeconfig, err)
	}
	cfg.UserAgent = "millwright/" + version.Version
	cfg.QPS, cfg.Burst = s.KubeClientQPS, s.KubeClientBurst
	kube.EndUnanswered(cfg)
	kube.Measure(cfg, registry)
	return cfg, nil
}

// reviewing returns the API server that is asked who may scrape the metrics, by connections of its own: other
// requests do not hold it up.
func reviewing(s *process.Settings, registry prometheus.Registerer) func() (kubernetes.Interface, error) {
	return func() (kubernetes.Interface, error) {
		cfg, err := kubeConfig(s, registry)
		if err != nil {
			return nil, err
		}
		core, err := kubernetes.NewForConfig(cfg)
		if err != nil {
			return nil, fmt.Errorf("build client for reviews: %w", err)
		}
		return core, nil
	}
}

// witnessedClock is a clock that every answer of the API server to clients built from this configuration
// afterwards is compared with.
func witnessedClock(cfg *rest.Config, registry prometheus.Registerer) *clock.Clock {
	c := clock.New(clock.Config{})
	clock.Register(registry, c)
	cfg.Wrap(func(base http.RoundTripper) http.RoundTripper { return c.Transport(clock.APIServer, base) })
	return c
}

// keepClock returns what asks the API server for the time whenever it has been silent for a while. core is
// called when the process runs.
func keepClock(c *clock.Clock, core func() kubernetes.Interface, logger zerolog.Logger) func(context.Context) error {
	return (&clock.Keeper{Clock: c, Logger: logger, Probe: func(ctx context.Context) error {
		return core().Discovery().RESTClient().Get().AbsPath("/version").Do(ctx).Error()
	}}).Run
}
