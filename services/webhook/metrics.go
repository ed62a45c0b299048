package webhook

import (
	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promauto"
)

// Outcomes of a review.
const (
	outcomeConverted = "converted"
	outcomeFailed    = "failed"
	outcomeRefused   = "refused" // no ConversionReview, or too large
)

type metrics struct {
	reviews  *prometheus.CounterVec
	objects  *prometheus.CounterVec
	duration prometheus.Histogram
	expiry   prometheus.Gauge
	renewals prometheus.Counter
	failures *prometheus.CounterVec
}

func newMetrics(r prometheus.Registerer) *metrics {
	f := promauto.With(r)
	return &metrics{
		reviews: f.NewCounterVec(prometheus.CounterOpts{Namespace: "millwright", Subsystem: "webhook", Name: "reviews_total",
			Help: "ConversionReviews answered, by outcome: converted, failed, refused."}, []string{"outcome"}),
		objects: f.NewCounterVec(prometheus.CounterOpts{Namespace: "millwright", Subsystem: "webhook", Name: "objects_converted_total",
			Help: "Objects converted, by kind and version, and whether a field was lost that the version cannot say."}, []string{"kind", "version", "lossy"}),
		duration: f.NewHistogram(prometheus.HistogramOpts{Namespace: "millwright", Subsystem: "webhook", Name: "review_duration_seconds",
			Help: "Time to answer a ConversionReview.", Buckets: prometheus.ExponentialBuckets(0.0005, 4, 9)}),
		expiry: f.NewGauge(prometheus.GaugeOpts{Namespace: "millwright", Subsystem: "webhook", Name: "certificate_expiry_timestamp_seconds",
			Help: "When the certificate in use expires."}),
		renewals: f.NewCounter(prometheus.CounterOpts{Namespace: "millwright", Subsystem: "webhook", Name: "certificate_renewals_total",
			Help: "Times this replica wrote new certificates into the Secret."}),
		failures: f.NewCounterVec(prometheus.CounterOpts{Namespace: "millwright", Subsystem: "webhook", Name: "sync_failures_total",
			Help: "Failed rounds of keeping Secret and CRDs, by step: secret, crds."}, []string{"step"}),
	}
}

// RegisterMetrics registers the metrics of the package with r, as a running process does; docs/metrics.md is
// made of them.
func RegisterMetrics(r prometheus.Registerer) { newMetrics(r) }
