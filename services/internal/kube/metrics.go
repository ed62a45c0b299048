package kube

import (
	"net/http"
	"strconv"
	"strings"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"k8s.io/client-go/rest"
)

// requestMetrics have the names that Karpenter's have (reference: operations §2.7).
type requestMetrics struct {
	requests *prometheus.CounterVec
	seconds  *prometheus.HistogramVec
}

func newRequestMetrics(r prometheus.Registerer) *requestMetrics {
	return &requestMetrics{
		requests: registered(r, prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "client_go_request_total", Help: "HTTP requests to the API server by status code and method; <error> if there was no answer.",
		}, []string{"code", "method"})),
		seconds: registered(r, prometheus.NewHistogramVec(prometheus.HistogramOpts{
			Name:    "client_go_request_duration_seconds",
			Help:    "Time until the API server answered about a resource, watches left out; kind is the resource as in paths, such as nodeclaims.",
			Buckets: prometheus.ExponentialBuckets(0.001, 1.5, 20),
		}, []string{"verb", "group", "version", "kind", "subresource"})),
	}
}

// registered registers c, or returns the equal collector another client of this process has registered.
func registered[C prometheus.Collector](r prometheus.Registerer, c C) C {
	err := r.Register(c)
	if already, ok := err.(prometheus.AlreadyRegisteredError); ok {
		return already.ExistingCollector.(C)
	}
	if err != nil {
		panic(err) // two different metrics with one name
	}
	return c
}

// RegisterMetrics registers the metrics of the package with r, as a running process does; docs/metrics.md is
// made of them.
func RegisterMetrics(r prometheus.Registerer) { newRequestMetrics(r) }

// Measure makes the clients that are built from a configuration afterwards measure their requests.
func Measure(cfg *rest.Config, r prometheus.Registerer) {
	m := newRequestMetrics(r)
	cfg.Wrap(func(base http.RoundTripper) http.RoundTripper { return measured{m, base} })
}

type measured struct {
	metrics *requestMetrics
	base    http.RoundTripper
}

// RoundTrip implements http.RoundTripper.
func (t measured) RoundTrip(r *http.Request) (*http.Response, error) {
	began := time.Now()
	answer, err := t.base.RoundTrip(r)
	took := time.Since(began)
	code := "<error>"
	if err == nil {
		code = strconv.Itoa(answer.StatusCode)
	}
	t.metrics.requests.WithLabelValues(code, r.Method).Inc()
	if a, ok := askedOf(r.URL.Path); ok && r.URL.Query().Get("watch") == "" {
		t.metrics.seconds.WithLabelValues(a.verb(r.Method), a.group, a.version, a.resource, a.subresource).Observe(took.Seconds())
	}
	return answer, err
}

// WrappedRoundTripper is where client-go finds what is below.
func (t measured) WrappedRoundTripper() http.RoundTripper { return t.base }

// asked is what a request is about.
type asked struct {
	group, version, resource, subresource string
	// named: it is about one object.
	named bool
}

// askedOf a path below /api or /apis; false if it is about no resource, such as /version.
func askedOf(path string) (asked, bool) {
	parts := strings.Split(strings.Trim(path, "/"), "/")
	var a asked
	switch {
	case parts[0] == "api" && len(parts) > 2:
		a.version, parts = parts[1], parts[2:]
	case parts[0] == "apis" && len(parts) > 3:
		a.group, a.version, parts = parts[1], parts[2], parts[3:]
	default:
		return asked{}, false
	}
	if parts[0] == "namespaces" && len(parts) > 2 { // it is about what is in the namespace
		parts = parts[2:]
	}
	a.resource, a.named = parts[0], len(parts) > 1
	if len(parts) > 2 {
		a.subresource = parts[2]
	}
	return a, true
}

// verb is that of Karpenter's metric: one that says what is done, not how.
func (a asked) verb(method string) string {
	switch {
	case method == http.MethodPost, method == http.MethodPut && !a.named:
		return "CREATE"
	case method == http.MethodPut:
		return "UPDATE"
	case method == http.MethodGet && !a.named:
		return "LIST"
	}
	return method
}
