package provisioner

import (
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promauto"
)

// controller is the label value that users' dashboards query.
const controller = "provisioner"

// durationBuckets of karpenter_* durations (reference: operations §2).
var durationBuckets = []float64{.005, .01, .025, .05, .1, .25, .5, 1, 2.5, 5, 10, 30, 60, 120, 150, 300, 450, 600}

type metrics struct {
	duration      *prometheus.HistogramVec
	queueDepth    *prometheus.GaugeVec
	unschedulable *prometheus.GaugeVec
	ignored       prometheus.Gauge
	decisionTime  prometheus.Histogram
	outcomes      *prometheus.CounterVec
	hints         *prometheus.CounterVec
}

func newMetrics(r prometheus.Registerer) *metrics {
	f := promauto.With(r)
	m := &metrics{
		duration: f.NewHistogramVec(prometheus.HistogramOpts{Namespace: "karpenter", Subsystem: "scheduler",
			Name: "scheduling_duration_seconds", Help: "Duration of one planning round.", Buckets: durationBuckets}, []string{"controller"}),
		queueDepth: f.NewGaugeVec(prometheus.GaugeOpts{Namespace: "karpenter", Subsystem: "scheduler", Name: "queue_depth",
			Help: "Pods that wait for a first verdict."}, []string{"controller"}),
		unschedulable: f.NewGaugeVec(prometheus.GaugeOpts{Namespace: "karpenter", Subsystem: "scheduler", Name: "unschedulable_pods_count",
			Help: "Pods that the last round could not place."}, []string{"controller"}),
		ignored: f.NewGauge(prometheus.GaugeOpts{Namespace: "karpenter", Subsystem: "scheduler", Name: "ignored_pods_count",
			Help: "Pods that the last round did not plan for, because they failed validation."}),
		decisionTime: f.NewHistogram(prometheus.HistogramOpts{Namespace: "karpenter", Subsystem: "pods",
			Name: "scheduling_decision_duration_seconds", Help: "From first sight of a pod to its first verdict.", Buckets: durationBuckets}),
		outcomes: f.NewCounterVec(prometheus.CounterOpts{Namespace: "millwright", Subsystem: "provisioner", Name: "rounds_total",
			Help: "Planning rounds by outcome: recorded, unchanged."}, []string{"outcome"}),
		hints: f.NewCounterVec(prometheus.CounterOpts{Namespace: "millwright", Subsystem: "provisioner", Name: "placement_hints_total",
			Help: "Writes of status.nominatedNodeName by outcome: set, cleared, outdated (the pod has changed meanwhile), failed."}, []string{"outcome"}),
	}
	// They are there before the first write, whose increase would not be seen otherwise.
	for _, outcome := range []string{"set", "cleared", "outdated", "failed"} {
		m.hints.WithLabelValues(outcome)
	}
	return m
}

func (m *metrics) rounds(p planned, waited []time.Duration) {
	m.duration.WithLabelValues(controller).Observe(p.took.Seconds())
	m.queueDepth.WithLabelValues(controller).Set(0)
	m.unschedulable.WithLabelValues(controller).Set(float64(p.round.Refused))
	m.ignored.Set(float64(p.round.Ignored))
	for _, d := range waited {
		m.decisionTime.Observe(d.Seconds())
	}
	outcome := "unchanged"
	if p.decision != nil {
		outcome = "recorded"
	}
	m.outcomes.WithLabelValues(outcome).Inc()
}

// forget ceases to serve what the last round found.
func (m *metrics) forget() {
	m.queueDepth.Reset()
	m.unschedulable.Reset()
	m.ignored.Set(0)
}

// RegisterMetrics registers the metrics of the package with r, as a running process does; docs/metrics.md is
// made of them.
func RegisterMetrics(r prometheus.Registerer) {
	newMetrics(r)
	r.MustRegister(newClusterMetrics(nil), newConditionMetrics(r, nil, false), newWorkMetrics(nil, newPodTimes(r)))
}
