package step

import (
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promauto"
)

const namespace = "millwright"

// durationBuckets are those of the karpenter_* duration histograms up to a minute (reference: operations §2).
var durationBuckets = []float64{.001, .0025, .005, .01, .025, .05, .1, .25, .5, 1, 2.5, 5, 10, 30, 60}

// appendOutcomes and refusals are the values of their labels.
var (
	appendOutcomes = []string{"stored", "conflict", "fenced", "too_large", "refused", "unknown"}
	refusals       = []string{"unsynced", "torn", "world_behind", "ledger_behind", "stale", "ahead", "not_the_actor", "append_unknown", "own_append", "clock"}
)

// metrics of one service.
type metrics struct {
	leader         prometheus.Gauge
	degraded       prometheus.Gauge
	appends        *prometheus.CounterVec
	appendDuration prometheus.Histogram
	conflicts      prometheus.Counter
	decision       prometheus.Histogram
	effects        *prometheus.CounterVec
	effectsRunning *prometheus.GaugeVec
	effectsWaiting *prometheus.GaugeVec
	notReady       *prometheus.CounterVec
	// service and registerer are for the metrics of lanes.
	service    string
	registerer prometheus.Registerer
}

func newMetrics(r prometheus.Registerer, service string) *metrics {
	f := promauto.With(r)
	m := &metrics{
		service: service, registerer: r,
		leader: f.NewGauge(prometheus.GaugeOpts{Namespace: namespace, Subsystem: service, Name: "leader",
			Help: "Whether this process leads the service (1) or stands by (0)."}),
		degraded: f.NewGauge(prometheus.GaugeOpts{Namespace: namespace, Subsystem: service, Name: "degraded",
			Help: "Whether this process, which led last, carries on with what is recorded while the log is out of reach (1)."}),
		appends: f.NewCounterVec(prometheus.CounterOpts{Namespace: namespace, Subsystem: service, Name: "appends_total",
			Help: "Appends to the log by outcome: stored, conflict, fenced, too_large, refused, unknown."}, []string{"outcome"}),
		appendDuration: f.NewHistogram(prometheus.HistogramOpts{Namespace: namespace, Subsystem: service,
			Name: "append_duration_seconds", Help: "Time until an append was acknowledged and folded.", Buckets: durationBuckets}),
		conflicts: f.NewCounter(prometheus.CounterOpts{Namespace: namespace, Subsystem: service,
			Name: "append_conflicts_total", Help: "Appends refused because an aggregate had moved."}),
		decision: f.NewHistogram(prometheus.HistogramOpts{Namespace: namespace, Subsystem: service,
			Name: "decision_latency_seconds", Help: "Time from the Now of a decision's Snapshot until it was recorded.",
			Buckets: durationBuckets}),
		effects: f.NewCounterVec(prometheus.CounterOpts{Namespace: namespace, Subsystem: service, Name: "effects_total",
			Help: "Effects that ended, by outcome: done, failed, timeout, cancelled, stopped, not_ready."}, []string{"outcome"}),
		effectsRunning: f.NewGaugeVec(prometheus.GaugeOpts{Namespace: namespace, Subsystem: service, Name: "effects_running",
			Help: "Effects that run now, by lane."}, []string{"lane"}),
		effectsWaiting: f.NewGaugeVec(prometheus.GaugeOpts{Namespace: namespace, Subsystem: service, Name: "effects_waiting",
			Help: "Effects that wait for room in their lane."}, []string{"lane"}),
		notReady: f.NewCounterVec(prometheus.CounterOpts{Namespace: namespace, Subsystem: service,
			Name: "snapshots_refused_total", Help: "Snapshots that were not valid, by reason."}, []string{"reason"}),
	}
	// They are there before the first of each, whose increase would not be seen otherwise.
	for _, outcome := range appendOutcomes {
		m.appends.WithLabelValues(outcome)
	}
	for _, reason := range refusals {
		m.notReady.WithLabelValues(reason)
	}
	return m
}

func (m *metrics) appended(outcome string, began, ended time.Time) {
	m.appends.WithLabelValues(outcome).Inc()
	m.appendDuration.Observe(ended.Sub(began).Seconds())
}

// RegisterMetrics registers the metrics of a service with r, as a running process does; docs/metrics.md is
// made of them.
func RegisterMetrics(r prometheus.Registerer, service string) { newMetrics(r, service) }
