package process

import (
	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promauto"
)

const namespace = "millwright"

func newLedGauge(r prometheus.Registerer) *prometheus.GaugeVec {
	return promauto.With(r).NewGaugeVec(prometheus.GaugeOpts{Namespace: namespace, Name: "service_led",
		Help: "1 while somebody, in this process or another, is known to lead the service; 0 once nobody was for 10 s."}, []string{"service"})
}

// newMasterGauge has the name of client-go's metric (reference: operations §2.7).
func newMasterGauge(r prometheus.Registerer) *prometheus.GaugeVec {
	return promauto.With(r).NewGaugeVec(prometheus.GaugeOpts{Name: "leader_election_master_status",
		Help: "1 if this process leads what is elected under the name, which is that of a service, 0 if it stands by."}, []string{"name"})
}

func newBuildGauge(r prometheus.Registerer) *prometheus.GaugeVec {
	return promauto.With(r).NewGaugeVec(prometheus.GaugeOpts{Namespace: "karpenter", Name: "build_info",
		Help: "Version of the running binary; the value is always 1."}, []string{"version", "goversion", "goarch", "commit"})
}

func newStepMetrics(r prometheus.Registerer, service string) stepMetrics {
	f := promauto.With(r)
	m := stepMetrics{
		duration: f.NewHistogram(prometheus.HistogramOpts{Namespace: namespace, Subsystem: service, Name: "step_duration_seconds",
			Help: "Duration of one step.", Buckets: []float64{.0005, .001, .0025, .005, .01, .025, .05, .1, .25, .5, 1, 2.5, 5, 10}}),
		outcomes: f.NewCounterVec(prometheus.CounterOpts{Namespace: namespace, Subsystem: service, Name: "steps_total",
			Help: "Steps by outcome: done, not_ready, failed."}, []string{"outcome"}),
	}
	for _, outcome := range []string{"done", "not_ready", "failed"} { // there before the first of each, whose increase would not be seen otherwise
		m.outcomes.WithLabelValues(outcome)
	}
	return m
}

// RegisterMetrics registers the metrics of a process with r, but for those of its services; docs/metrics.md
// is made of them.
func RegisterMetrics(r prometheus.Registerer) {
	newBuildGauge(r)
	newLedGauge(r)
}

// RegisterLibraryMetrics registers those that Karpenter has from its libraries.
func RegisterLibraryMetrics(r prometheus.Registerer) { newMasterGauge(r) }

// RegisterServiceMetrics registers the metrics of the loop of a service.
func RegisterServiceMetrics(r prometheus.Registerer, service string) { newStepMetrics(r, service) }
