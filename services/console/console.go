package console

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"sync"
	"time"

	"github.com/cenkalti/backoff/v4"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/rs/zerolog"
	"k8s.io/client-go/kubernetes"

	"millwright/planner/ledger"
	"millwright/planner/world"
	"millwright/services/console/access"
	"millwright/services/console/api"
	"millwright/services/console/history"
	"millwright/services/console/index"
	"millwright/services/console/pages"
	"millwright/services/console/past"
	"millwright/services/console/shares"
	"millwright/services/console/trust"
	"millwright/services/console/view"
	"millwright/services/internal/clock"
	"millwright/services/internal/review"
	"millwright/services/internal/servercert"
	"millwright/store"
	"millwright/store/audit"
)

const (
	// connectionsMax bounds the connections, inFlightMax the requests that are answered at a time; tails have
	// a bound of their own, and so has signing in. formsMax bounds the forms that one connection sends at a
	// time.
	connectionsMax = 512
	inFlightMax    = 64
	loginsMax      = 16
	formsMax       = 16
	headerMax      = 32 << 10
	headerTimeout  = 5 * time.Second
	readTimeout    = 15 * time.Second
	writeTimeout   = 60 * time.Second
	idleTimeout    = 2 * time.Minute
	stopTimeout    = 3 * time.Second
	retryMax       = 30 * time.Second
)

// Config of a Console.
type Config struct {
	Settings Settings
	Cluster  string
	Version  string
	// Dir keeps a certificate of the console's own; empty: it lasts as long as the process.
	Dir string
	// PastDir keeps an index of the whole log; empty: only the newest records are told of.
	PastDir string
	// Core of the API server reviews tokens and rights.
	Core kubernetes.Interface
	Log  store.Log
	// Stream of the observations, for taking decisions again; nil: none is at hand.
	Stream audit.Stream
	// Versions are World and Ledger as they are now, or why there are none.
	Versions func() (*world.World, *ledger.Ledger, error)
	// Leaders of the services.
	Leaders    func(ctx context.Context) ([]store.Leader, error)
	Now        func() time.Time
	Logger     zerolog.Logger
	Registerer prometheus.Registerer
}

// Console serves the API and the pages. Run starts it.
type Console struct {
	cfg     Config
	metrics *metrics
	index   *index.Index
	// past is nil if no directory keeps it.
	past     *past.Past
	view     *view.View
	shares   *shares.Observer
	identity *servercert.Certificate
	reviewer *review.Reviewer
	inFlight chan struct{}
	logins   chan struct{}

	mu sync.Mutex
	// address it listens on; nil while it does not, for the reason in err.
	address net.Addr
	err     error
}

// New returns a Console; it has no side effects.
func New(cfg Config) *Console {
	c := &Console{
		cfg: cfg, metrics: newMetrics(cfg.Registerer), index: index.New(cfg.Log.ID(), 0), reviewer: review.New(review.Config{Core: cfg.Core, Now: cfg.Now, Audience: trust.Audience, CacheFor: access.CacheFor}),
		inFlight: make(chan struct{}, inFlightMax), logins: make(chan struct{}, loginsMax), err: errors.New("not listening yet"),
	}
	newest := history.New(cfg.Log.ID())
	if cfg.PastDir != "" {
		c.past = past.New(filepath.Join(cfg.PastDir, cfg.Log.ID()), cfg.Log.ID(), cfg.Now)
	}
	c.index.Also(func(e ledger.Entry) {
		if c.past == nil || c.past.History() == nil { // it is told of in the past otherwise
			newest.Add(e)
		}
		if c.past != nil {
			c.past.Add(e)
		}
		c.shares.Met(e)
	})
	c.view = view.New(view.Config{Cluster: cfg.Cluster, Log: cfg.Log, Stream: cfg.Stream, Index: c.index, History: newest, Past: c.past, Versions: cfg.Versions, Leaders: cfg.Leaders, Now: cfg.Now})
	c.shares = shares.New(shares.Config{Label: cfg.Settings.TeamLabel, Log: cfg.Log, Versions: cfg.Versions, History: c.view.Whole, Now: cfg.Now, Logger: cfg.Logger})
	c.identity = servercert.New(servercert.Config{What: Name, CertFile: cfg.Settings.CertFile, KeyFile: cfg.Settings.KeyFile, Dir: cfg.Dir, Names: names(cfg.Settings), Now: cfg.Now})
	return c
}

// names that a certificate of the console's own is for.
func names(s Settings) []string {
	list := []string{"localhost", "127.0.0.1", "::1"}
	if host, err := os.Hostname(); err == nil {
		list = append(list, host)
	}
	if host, _, err := net.SplitHostPort(s.Address); err == nil && host != "" && host != "0.0.0.0" && host != "::" {
		list = append(list, host)
	}
	list = append(list, s.Names...)
	slices.Sort(list[1:])
	return slices.Compact(list)
}

// Ready returns why it does not answer; nil if it does.
func (c *Console) Ready() error {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.err
}

// Address it listens on; nil while it does not.
func (c *Console) Address() net.Addr {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.address
}

func (c *Console) set(address net.Addr, err error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.address, c.err = address, err
}

// Run serves until ctx ends. It returns nothing else's business: what fails is logged and tried again.
func (c *Console) Run(ctx context.Context) error {
	var background sync.WaitGroup
	background.Go(func() { c.index.Run(ctx, c.cfg.Log, c.cfg.Logger) })
	background.Go(func() { c.publish(ctx) })
	background.Go(func() { c.shares.Run(ctx) })
	if c.past != nil {
		background.Go(func() { c.past.Run(ctx, c.cfg.Log, c.cfg.Logger) })
	}
	defer background.Wait()
	retry := backoff.NewExponentialBackOff(backoff.WithMaxElapsedTime(0), backoff.WithInitialInterval(time.Second), backoff.WithMaxInterval(retryMax))
	for ctx.Err() == nil {
		began := c.cfg.Now()
		err := c.serve(ctx)
		if ctx.Err() != nil {
			break
		}
		c.set(nil, err)
		if c.cfg.Now().Sub(began) > retryMax {
			retry.Reset()
		}
		wait := retry.NextBackOff()
		c.cfg.Logger.Warn().Err(err).Dur("retry_in", wait).Msg("console does not serve")
		_ = clock.Sleep(ctx, wait)
	}
	return nil
}

// serve listens and answers until ctx ends or the server fails.
func (c *Console) serve(ctx context.Context) error {
	if _, err := c.identity.Get(nil); err != nil {
		return err
	}
	listener, err := net.Listen("tcp", c.cfg.Settings.Address)
	if err != nil {
		return fmt.Errorf("listen for the console: %w", err)
	}
	proxy, err := proxyOf(c.cfg.Settings)
	if err != nil {
		_ = listener.Close()
		return err
	}
	stopping := make(chan struct{})
	server := &http.Server{
		Handler: proxy.Handler(c.handler(stopping), c.cfg.Now), MaxHeaderBytes: headerMax, ReadHeaderTimeout: headerTimeout, ReadTimeout: readTimeout,
		WriteTimeout: writeTimeout, IdleTimeout: idleTimeout, ErrorLog: servercert.ErrorLog(c.cfg.Logger),
		ConnContext: withConnection,
		TLSConfig:   &tls.Config{MinVersion: tls.VersionTLS12, GetCertificate: c.identity.Get},
	}
	if proxy != nil { // whose certificate it is, is looked at for each request: others are served without
		server.TLSConfig.ClientAuth = tls.RequestClientCert
		if server.TLSConfig.ClientCAs, err = proxy.Roots(); err != nil {
			_ = listener.Close()
			return err
		}
	}
	c.set(listener.Addr(), nil)
	c.cfg.Logger.Info().Str("endpoint", Name).Str("address", listener.Addr().String()).Msg("listening")
	served := make(chan error, 1)
	go func() { served <- server.ServeTLS(&connections{Listener: listener, most: connectionsMax}, "", "") }()
	select {
	case err := <-served:
		close(stopping)
		return fmt.Errorf("serve the console: %w", err)
	case <-ctx.Done():
	}
	close(stopping)
	stop, cancel := context.WithTimeout(context.WithoutCancel(ctx), stopTimeout)
	defer cancel()
	if err := server.Shutdown(stop); err != nil {
		_ = server.Close()
	}
	<-served
	return nil
}

// handler of everything that is served.
func (c *Console) handler(stopping <-chan struct{}) http.Handler {
	mux := http.NewServeMux()
	a := api.New(api.Config{View: c.view, Index: c.index, Log: c.cfg.Log, Reviewer: c.reviewer, Now: c.cfg.Now, Logger: c.cfg.Logger, Done: stopping,
		Counted: c.metrics.count, Version: c.cfg.Version})
	a.Register(mux)
	pages.New(pages.Config{Cluster: c.cfg.Cluster, View: c.view, Index: c.index, API: a, Reviewer: c.reviewer, Now: c.cfg.Now, Logger: c.cfg.Logger,
		Counted: c.metrics.count}).Register(mux)
	// Pages of other sites cannot have a browser give an order: Sec-Fetch-Site and Origin are compared.
	return c.guarded(http.NewCrossOriginProtection().Handler(mux))
}

// guarded sets what every answer says, and bounds how many are made at a time.
func (c *Console) guarded(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		h := w.Header()
		h.Set("Content-Security-Policy", "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; connect-src 'self'; "+
			"form-action 'self'; base-uri 'none'; frame-ancestors 'none'")
		h.Set("X-Content-Type-Options", "nosniff")
		h.Set("X-Frame-Options", "DENY")
		h.Set("Referrer-Policy", "same-origin")
		h.Set("Cross-Origin-Opener-Policy", "same-origin")
		h.Set("Cross-Origin-Resource-Policy", "same-origin")
		defer func() {
			if p := recover(); p != nil && p != http.ErrAbortHandler { //nolint:errorlint // it is compared as net/http does
				c.cfg.Logger.Error().Str("panic", fmt.Sprint(p)).Msg("request failed")
				panic(http.ErrAbortHandler)
			}
		}()
		if following(r) {
			next.ServeHTTP(w, r.WithContext(proving(r)))
			return
		}
		c.placed(next, w, r)
	})
}
