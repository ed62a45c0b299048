package export

import (
	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promauto"
)

type metrics struct {
	delivered, deadLetters, skipped, attempts, rewinds *prometheus.CounterVec
	cursorFailures                                     *prometheus.CounterVec
	lagRecords, lagSeconds                             *prometheus.GaugeVec
	duration                                           *prometheus.HistogramVec
}

// Outcomes of attempts.
const (
	outcomeTaken      = "taken"
	outcomeRefused    = "refused"
	outcomeUnanswered = "unanswered"
)

func newMetrics(r prometheus.Registerer) *metrics {
	f := promauto.With(r)
	counter := func(name, help string, labels ...string) *prometheus.CounterVec {
		return f.NewCounterVec(prometheus.CounterOpts{Namespace: "millwright", Subsystem: Name, Name: name, Help: help}, append([]string{"sink"}, labels...))
	}
	gauge := func(name, help string) *prometheus.GaugeVec {
		return f.NewGaugeVec(prometheus.GaugeOpts{Namespace: "millwright", Subsystem: Name, Name: name, Help: help}, []string{"sink"})
	}
	return &metrics{
		delivered:      counter("delivered_total", "Records of which the sink took what is sent for them."),
		deadLetters:    counter("dead_letters_total", "Records that the sink refused while it took others, and that were given up."),
		skipped:        counter("skipped_records_total", "Records that had left log and archive before they were sent."),
		attempts:       counter("attempts_total", "Requests to the sink, by outcome.", "outcome"),
		rewinds:        counter("rewinds_total", "Times that the log held other records than those that were sent, since it was restored from a backup."),
		cursorFailures: counter("cursor_failures_total", "Times that it could not be kept how far the export has come."),
		lagRecords:     gauge("lag_records", "Records of the log that the sink has not been offered, or has not taken."),
		lagSeconds:     gauge("lag_seconds", "Age of the oldest record that waits for the sink; if what waits cannot be read, how long that has been so."),
		duration: f.NewHistogramVec(prometheus.HistogramOpts{Namespace: "millwright", Subsystem: Name, Name: "request_duration_seconds",
			Help: "Duration of requests to the sink.", Buckets: []float64{.005, .01, .025, .05, .1, .25, .5, 1, 2.5, 5, 10, 30}}, []string{"sink"}),
	}
}

// expose serves what a sink loses before it loses anything: of a series that begins with the first loss no
// increase can be told.
func (m *metrics) expose(sink string) {
	m.deadLetters.WithLabelValues(sink)
	m.skipped.WithLabelValues(sink)
}

// RegisterMetrics registers the metrics of the export with r; docs/metrics.md is made of them.
func RegisterMetrics(r prometheus.Registerer) { newMetrics(r) }
