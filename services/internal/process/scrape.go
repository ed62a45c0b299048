package process

import (
	"context"
	"crypto/tls"
	"errors"
	"net"
	"net/http"
	"os"
	"time"

	"k8s.io/client-go/kubernetes"

	"millwright/services/internal/review"
	"millwright/services/internal/servercert"
)

const (
	// scrapeTimeout bounds the questions to the API server about one request; Prometheus waits for 10 s.
	scrapeTimeout = 4 * time.Second
	// scraperCacheFor is how long an answer of it counts, and scraperStaleFor how much longer one counts
	// while it gives none: metrics are needed most when the API server is down.
	scraperCacheFor = time.Minute
	scraperStaleFor = 10 * time.Minute
	// scrapeConnectionsMax bounds the connections over TLS.
	scrapeConnectionsMax = 64
	scrapeHeaderMax      = 16 << 10
)

// scrape is the right that /metrics takes.
var scrape = review.Right{Verb: "get", Path: "/metrics"}

// scrapeCertificate is what the port of the metrics shows; nil: it speaks plain HTTP.
func (s *Settings) scrapeCertificate(now func() time.Time) *servercert.Certificate {
	if !s.MetricsAuthorization && s.MetricsTLSCertFile == "" {
		return nil
	}
	names := []string{"localhost", "127.0.0.1", "::1"}
	if host, err := os.Hostname(); err == nil {
		names = append(names, host)
	}
	return servercert.New(servercert.Config{What: "metrics", CertFile: s.MetricsTLSCertFile, KeyFile: s.MetricsTLSKeyFile, Names: names, Now: now})
}

// scrapeTLS is without HTTP/2: one connection is one request at a time.
func scrapeTLS(c *servercert.Certificate) *tls.Config {
	return &tls.Config{MinVersion: tls.VersionTLS12, GetCertificate: c.Get, NextProtos: []string{"http/1.1"}}
}

// scrapers lets who may get /metrics pass.
type scrapers struct {
	reviewer *review.Reviewer
	next     http.Handler
}

func newScrapers(core kubernetes.Interface, now func() time.Time, next http.Handler) *scrapers {
	return &scrapers{next: next, reviewer: review.New(review.Config{Core: core, Now: now, CacheFor: scraperCacheFor, StaleFor: scraperStaleFor})}
}

// ServeHTTP answers 401 to who is not known, 403 to who may not, 429 if too many strangers ask, and 503 while
// the API server does not say.
func (s *scrapers) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	ctx, cancel := context.WithTimeout(r.Context(), scrapeTimeout)
	defer cancel()
	token, _ := review.BearerOf(r)
	from, _, _ := net.SplitHostPort(r.RemoteAddr)
	who, err := s.reviewer.Identify(ctx, from, token)
	if err == nil {
		err = s.reviewer.Check(ctx, who, scrape, false)
	}
	switch {
	case err == nil:
		s.next.ServeHTTP(w, r)
	case errors.Is(err, review.ErrUnknown):
		w.Header().Set("WWW-Authenticate", "Bearer")
		http.Error(w, "a bearer token that the API server knows is needed", http.StatusUnauthorized)
	case errors.Is(err, review.ErrForbidden):
		http.Error(w, "it takes the right to get the nonResourceURL /metrics", http.StatusForbidden)
	case errors.Is(err, review.ErrBusy):
		w.Header().Set("Retry-After", "5")
		http.Error(w, err.Error(), http.StatusTooManyRequests)
	default:
		http.Error(w, review.ErrUnavailable.Error(), http.StatusServiceUnavailable)
	}
}
