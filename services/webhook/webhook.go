package webhook

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	stdlog "log"
	"net"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"sync/atomic"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/rs/zerolog"
	"golang.org/x/net/netutil"
	apiextclient "k8s.io/apiextensions-apiserver/pkg/client/clientset/clientset"
	"k8s.io/client-go/kubernetes"

	"millwright/api/conversion"
	karpv1 "millwright/api/karpenter/v1"
	"millwright/deploy/crds"
	"millwright/services/internal/clock"
	"millwright/services/internal/kube"
)

const (
	syncEvery    = time.Minute
	syncRetry    = 2 * time.Second
	syncTimeout  = 20 * time.Second
	poolTimeout  = 5 * time.Second
	stopTimeout  = 10 * time.Second
	idleTimeout  = 2 * time.Minute
	readTimeout  = 30 * time.Second
	writeTimeout = 30 * time.Second
)

// Settings of the webhook.
type Settings struct {
	// Port the webhook listens on; 0 picks a free one.
	Port int
	// Service and Namespace are where the API server finds it; Secret is in the same namespace.
	Service, Namespace, Secret string
	// URL is used instead of the Service, for a webhook outside the cluster.
	URL string
}

// Validate reports the settings that make no sense, each by its flag.
func (s Settings) Validate() error {
	var errs []error
	if s.Port < 0 || s.Port > 65535 {
		errs = append(errs, fmt.Errorf("--webhook-port is from 0 to 65535, not %d", s.Port))
	}
	for flag, value := range map[string]string{"--karpenter-service": s.Service, "--system-namespace": s.Namespace, "--webhook-secret": s.Secret} {
		if value == "" {
			errs = append(errs, fmt.Errorf("missing %s", flag))
		}
	}
	if s.URL != "" {
		u, err := url.Parse(s.URL)
		if err != nil || u.Scheme != "https" || u.Hostname() == "" || u.RawQuery != "" || u.Fragment != "" || u.User != nil {
			errs = append(errs, fmt.Errorf("--webhook-url is as in https://host:port, not %q", s.URL))
		}
	}
	return errors.Join(errs...)
}

// names are those that the certificate must cover.
func (s Settings) names() []string {
	out := []string{s.Service + "." + s.Namespace + ".svc", s.Service + "." + s.Namespace + ".svc.cluster.local",
		s.Service + "." + s.Namespace, s.Service, "localhost", "127.0.0.1"}
	if u, err := url.Parse(s.URL); err == nil && u.Hostname() != "" {
		out = append(out, u.Hostname())
	}
	return out
}

// Config of a Webhook.
type Config struct {
	Settings Settings
	Core     kubernetes.Interface
	CRDs     apiextclient.Interface
	Pools    *kube.Resource[*karpv1.NodePool, *karpv1.NodePoolList]
	// Now is the time, and Reliable why it cannot be relied on; nothing is renewed then.
	Now        func() time.Time
	Reliable   func() error
	Logger     zerolog.Logger
	Registerer prometheus.Registerer
}

// Webhook converts, and keeps its certificates. Run starts it.
type Webhook struct {
	cfg      Config
	handler  *handler
	keeper   *keeper
	injector *injector
	metrics  *metrics
	logger   zerolog.Logger

	certificate atomic.Pointer[tls.Certificate]
	injected    atomic.Pointer[error]
	address     atomic.Pointer[net.TCPAddr]
}

// New returns a Webhook; it has no side effects.
func New(cfg Config) (*Webhook, error) {
	shapes, err := conversion.NewShapes(crds.WithV1beta1, "with-v1beta1")
	if err != nil {
		return nil, err
	}
	s, m := cfg.Settings, newMetrics(cfg.Registerer)
	w := &Webhook{cfg: cfg, metrics: m, logger: cfg.Logger}
	w.handler = &handler{pool: w.pool, shapes: shapes, logger: cfg.Logger, metrics: m, bytesMax: requestBytesMax, now: cfg.Now}
	w.keeper = &keeper{core: cfg.Core, namespace: s.Namespace, name: s.Secret, names: s.names(), now: cfg.Now, reliable: cfg.Reliable, renewed: m.renewals.Inc}
	w.injector = &injector{crds: cfg.CRDs.ApiextensionsV1().CustomResourceDefinitions(), url: strings.TrimSuffix(s.URL, "/"),
		namespace: s.Namespace, service: s.Service, port: int32(s.Port)}
	return w, nil
}

// pool reads a NodePool at v1. One that is being deleted does not count as living.
func (w *Webhook) pool(ctx context.Context, name string) (string, bool, error) {
	ctx, cancel := context.WithTimeout(ctx, poolTimeout)
	defer cancel()
	p, err := w.cfg.Pools.Get(ctx, name)
	if kube.IsNotFound(err) {
		return "", false, nil
	}
	if err != nil {
		return "", false, err
	}
	return p.Spec.Template.Spec.ExpireAfter.Raw, p.DeletionTimestamp == nil, nil
}

// Ready reports whether reviews are answered by a server that the CRDs trust.
func (w *Webhook) Ready() error {
	switch c := w.certificate.Load(); {
	case c == nil:
		return errors.New("no certificate yet")
	case w.cfg.Reliable() == nil && !w.cfg.Now().Before(c.Leaf.NotAfter):
		return fmt.Errorf("the certificate expired at %s", c.Leaf.NotAfter.Format(time.RFC3339))
	}
	if err := w.injected.Load(); err == nil {
		return errors.New("the CRDs have not been looked at yet")
	} else if *err != nil {
		return *err
	}
	return nil
}

// Run serves until ctx ends; then it finishes the reviews in flight, for at most stopTimeout.
func (w *Webhook) Run(ctx context.Context) error {
	listener, err := net.Listen("tcp", ":"+strconv.Itoa(w.cfg.Settings.Port))
	if err != nil {
		return fmt.Errorf("listen for reviews: %w", err)
	}
	addr := listener.Addr().(*net.TCPAddr)
	w.injector.port = int32(addr.Port)
	w.logger.Info().Str("endpoint", "webhook").Str("address", addr.String()).Msg("listening")
	server := w.server()
	served := make(chan error, 1)
	go func() { served <- server.ServeTLS(netutil.LimitListener(listener, connectionsMax), "", "") }()
	w.address.Store(addr)
	syncCtx, stopSync := context.WithCancel(ctx)
	synced := make(chan struct{})
	go func() { defer close(synced); w.sync(syncCtx) }()
	select {
	case err = <-served:
		stopSync()
		<-synced
		return fmt.Errorf("serve reviews: %w", err)
	case <-ctx.Done():
	}
	stopSync()
	<-synced
	stopCtx, cancel := context.WithTimeout(context.WithoutCancel(ctx), stopTimeout)
	defer cancel()
	if err := server.Shutdown(stopCtx); err != nil {
		return fmt.Errorf("stop serving reviews: %w", errors.Join(err, server.Close()))
	}
	return nil
}

// server answers reviews, a bounded number at once.
func (w *Webhook) server() *http.Server {
	refused := func() { w.metrics.reviews.WithLabelValues(outcomeRefused).Inc() }
	return &http.Server{
		Handler:        bounded(w.handler.routes(), make(slots, reviewsMax), refused),
		MaxHeaderBytes: headerBytesMax, ReadHeaderTimeout: 10 * time.Second, ReadTimeout: readTimeout, WriteTimeout: writeTimeout,
		IdleTimeout: idleTimeout, ErrorLog: stdlog.New(connections{w.logger}, "", 0),
		TLSConfig: &tls.Config{MinVersion: tls.VersionTLS12, GetCertificate: w.serving},
	}
}

func (w *Webhook) serving(*tls.ClientHelloInfo) (*tls.Certificate, error) {
	if c := w.certificate.Load(); c != nil {
		return c, nil
	}
	return nil, errors.New("no certificate yet")
}

// sync maintains Secret and CRDs until ctx ends.
func (w *Webhook) sync(ctx context.Context) {
	for ctx.Err() == nil {
		wait := syncEvery
		if !w.syncOnce(ctx) {
			wait = syncRetry
		}
		_ = clock.Sleep(ctx, wait)
	}
}

// syncOnce writes the CA into the CRDs before it serves a certificate signed by it.
func (w *Webhook) syncOnce(ctx context.Context) bool {
	ctx, cancel := context.WithTimeout(ctx, syncTimeout)
	defer cancel()
	m, err := w.keeper.keepCertificate(ctx)
	if err != nil {
		w.metrics.failures.WithLabelValues("secret").Inc()
		w.logger.Warn().Err(err).Msg("certificates not kept")
		return false
	}
	written, err := w.injector.inject(ctx, m.Bundle())
	w.injected.Store(&err)
	for _, name := range written {
		w.logger.Info().Str("crd", name).Msg("wrote conversion webhook into CRD")
	}
	if have := w.certificate.Load(); have == nil || !have.Leaf.Equal(m.leaf.Cert) {
		w.certificate.Store(m.certificate())
		w.metrics.expiry.Set(float64(m.leaf.Cert.NotAfter.Unix()))
		w.logger.Info().Time("expires", m.leaf.Cert.NotAfter).Msg("serving with certificate")
	}
	if err != nil {
		w.metrics.failures.WithLabelValues("crds").Inc()
		w.logger.Warn().Err(err).Msg("CRDs not kept")
		return false
	}
	return true
}

// connections logs what the server reports of connections it could not use: mostly probes without TLS.
type connections struct{ logger zerolog.Logger }

func (c connections) Write(line []byte) (int, error) {
	c.logger.Debug().Str("text", strings.TrimSpace(string(line))).Msg("connection dropped")
	return len(line), nil
}
