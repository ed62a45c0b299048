package process

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/http/pprof"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promhttp"
	"github.com/rs/zerolog"
	"golang.org/x/net/netutil"
	"k8s.io/client-go/kubernetes"

	"millwright/services/internal/servercert"
)

// Check is a named condition of health or readiness.
type Check struct {
	Name string
	// Probe returns nil, or what is wrong. It must not block.
	Probe func() error
}

// checks of one endpoint; they are added while the process starts up.
type checks struct {
	mu   sync.Mutex
	list []Check
}

func (c *checks) addChecks(more ...Check) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.list = append(c.list, more...)
}

// ServeHTTP answers 200 if all checks pass, or the one that the path names after the endpoint's own.
func (c *checks) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	c.mu.Lock()
	list := slices.Clone(c.list)
	c.mu.Unlock()
	only := r.PathValue("check")
	var text strings.Builder
	code, found := http.StatusOK, only == ""
	for _, check := range list {
		if only != "" && check.Name != only {
			continue
		}
		found = true
		if err := check.Probe(); err != nil {
			code = http.StatusServiceUnavailable
			fmt.Fprintf(&text, "[-] %s: %s\n", check.Name, err)
			continue
		}
		fmt.Fprintf(&text, "[+] %s\n", check.Name)
	}
	if !found {
		http.NotFound(w, r)
		return
	}
	w.WriteHeader(code)
	fmt.Fprint(w, text.String())
}

// servers are the endpoints of a process for health and metrics.
type servers struct {
	logger zerolog.Logger
	list   []*http.Server
	group  sync.WaitGroup
}

// listen starts the endpoints. Equal ports share one server; port 0 picks a free one. core reviews who may
// scrape; nil: everybody may.
func listen(s Settings, gather prometheus.Gatherer, healthy, ready *checks, core kubernetes.Interface, logger zerolog.Logger) (*servers, error) {
	health, metrics := http.NewServeMux(), http.NewServeMux()
	if s.HealthProbePort == s.MetricsPort && s.MetricsPort != 0 {
		metrics = health
	}
	health.Handle("GET /healthz", healthy)
	health.Handle("GET /healthz/{check}", healthy)
	health.Handle("GET /readyz", ready)
	health.Handle("GET /readyz/{check}", ready)
	if s.MetricsCompat {
		gather = withFormerNames(gather)
	}
	series := promhttp.HandlerFor(gather, promhttp.HandlerOpts{})
	if core != nil {
		series = newScrapers(core, time.Now, series)
	}
	metrics.Handle("GET /metrics", series)
	endpoints := []endpoint{{what: "health", address: anyAddress(s.HealthProbePort), handler: health, answerWithin: answerWithin}}
	if metrics != health {
		endpoints = append(endpoints, endpoint{"metrics", anyAddress(s.MetricsPort), metrics, s.scrapeCertificate(time.Now), answerWithin})
	}
	if s.EnableProfiling { // on a loopback address, as Validate has checked
		endpoints = append(endpoints, endpoint{what: "profiling", address: s.ProfilingAddress, handler: profiles()})
	}
	v := &servers{logger: logger}
	for _, e := range endpoints {
		if err := v.serve(e); err != nil {
			v.shutdown()
			return nil, err
		}
	}
	return v, nil
}

// endpoint is an address with what is served there.
type endpoint struct {
	what, address string
	handler       http.Handler
	// certificate it shows; nil: it speaks plain HTTP.
	certificate *servercert.Certificate
	// answerWithin bounds how long who asks may take to read the answer, which is held until then; 0: nothing
	// does.
	answerWithin time.Duration
}

// answerWithin is that of health and metrics; profiles take as long as they are asked to.
const answerWithin = time.Minute

func anyAddress(port int) string { return ":" + strconv.Itoa(port) }

func profiles() http.Handler {
	mux := http.NewServeMux()
	mux.HandleFunc("/debug/pprof/", pprof.Index)
	mux.HandleFunc("/debug/pprof/cmdline", pprof.Cmdline)
	mux.HandleFunc("/debug/pprof/profile", pprof.Profile)
	mux.HandleFunc("/debug/pprof/symbol", pprof.Symbol)
	mux.HandleFunc("/debug/pprof/trace", pprof.Trace)
	return mux
}

func (v *servers) serve(e endpoint) error {
	if e.certificate != nil { // one that cannot be read now would keep everybody out
		if _, err := e.certificate.Get(nil); err != nil {
			return err
		}
	}
	l, err := net.Listen("tcp", e.address)
	if err != nil {
		return fmt.Errorf("listen for %s: %w", e.what, err)
	}
	srv := &http.Server{Handler: e.handler, ReadHeaderTimeout: 10 * time.Second, IdleTimeout: 2 * time.Minute, WriteTimeout: e.answerWithin}
	serve := func() error { return srv.Serve(l) }
	if e.certificate != nil {
		srv.TLSConfig, srv.MaxHeaderBytes = scrapeTLS(e.certificate), scrapeHeaderMax
		srv.TLSNextProto = map[string]func(*http.Server, *tls.Conn, http.Handler){}
		srv.ErrorLog = servercert.ErrorLog(v.logger)
		serve = func() error { return srv.ServeTLS(netutil.LimitListener(l, scrapeConnectionsMax), "", "") }
	}
	v.list = append(v.list, srv)
	v.logger.Info().Str("endpoint", e.what).Str("address", l.Addr().String()).Bool("tls", e.certificate != nil).Msg("listening")
	v.group.Go(func() {
		if err := serve(); !errors.Is(err, http.ErrServerClosed) {
			v.logger.Error().Err(err).Str("endpoint", e.what).Msg("server ended")
		}
	})
	return nil
}

func (v *servers) shutdown() {
	ctx, cancel := context.WithTimeout(context.Background(), 2*time.Second)
	defer cancel()
	for _, srv := range v.list {
		_ = srv.Shutdown(ctx)
	}
	v.group.Wait()
}
