package console

import (
	"strconv"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promauto"
)

type metrics struct {
	requests *prometheus.CounterVec
	duration prometheus.Histogram
}

func newMetrics(r prometheus.Registerer) *metrics {
	f := promauto.With(r)
	return &metrics{
		requests: f.NewCounterVec(prometheus.CounterOpts{Namespace: "millwright", Subsystem: Name, Name: "requests_total",
			Help: "Requests answered, by operation and HTTP status."}, []string{"operation", "status"}),
		duration: f.NewHistogram(prometheus.HistogramOpts{Namespace: "millwright", Subsystem: Name, Name: "request_duration_seconds",
			Help: "Duration of requests; that of a tail is its whole life.", Buckets: []float64{.001, .0025, .005, .01, .025, .05, .1, .25, .5, 1, 2.5, 5, 10, 30}}),
	}
}

func (m *metrics) count(operation string, status int, took time.Duration) {
	m.requests.WithLabelValues(operation, strconv.Itoa(status)).Inc()
	m.duration.Observe(took.Seconds())
}

// RegisterMetrics registers the metrics of the console with r; docs/metrics.md is made of them.
func RegisterMetrics(r prometheus.Registerer) { newMetrics(r) }
