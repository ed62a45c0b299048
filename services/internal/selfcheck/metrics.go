package selfcheck

import (
	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promauto"
)

const namespace = "millwright"

type checks struct {
	total    *prometheus.CounterVec
	duration prometheus.Histogram
}

func newMetrics(r prometheus.Registerer) *checks {
	f := promauto.With(r)
	c := &checks{
		total: f.NewCounterVec(prometheus.CounterOpts{Namespace: namespace, Name: "replay_checks_total",
			Help: "Recorded decisions that were taken again, by outcome: same, diverged, not_replayable, no_room, failed."}, []string{"outcome"}),
		duration: f.NewHistogram(prometheus.HistogramOpts{Namespace: namespace, Name: "replay_check_duration_seconds",
			Help: "Time that it took to take a recorded decision again.", Buckets: []float64{.01, .03, .1, .3, 1, 3, 10, 30, 100, 300}}),
	}
	for _, o := range outcomes { // from 0 on, so that the first divergence is an increase
		c.total.WithLabelValues(string(o))
	}
	return c
}

// RegisterMetrics registers the metrics of the package with r, as a running process does; docs/metrics.md
// is made of them.
func RegisterMetrics(r prometheus.Registerer) { newMetrics(r) }
