package process

import (
	"time"

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

// reconcileMetrics are about the steps of a service, with the names that Karpenter's controllers have
// (reference: operations §2.7). A service has one worker, whose step looks at all objects.
type reconcileMetrics struct {
	total          *prometheus.CounterVec
	errors, panics prometheus.Counter
	duration       prometheus.Histogram
	active         prometheus.Gauge
}

// Results of a step: requeue_after has the time of the next one, requeue is that there is no valid Snapshot.
const (
	resultSuccess      = "success"
	resultError        = "error"
	resultRequeue      = "requeue"
	resultRequeueAfter = "requeue_after"
)

// reconcileBuckets are those of controller-runtime.
var reconcileBuckets = []float64{.005, .01, .025, .05, .1, .15, .2, .25, .3, .35, .4, .45, .5, .6, .7, .8, .9, 1, 1.25, 1.5, 1.75, 2, 2.5, 3, 3.5, 4, 4.5,
	5, 6, 7, 8, 9, 10, 15, 20, 25, 30, 40, 50, 60}

func newReconcileMetrics(r prometheus.Registerer, controller string) *reconcileMetrics {
	const prefix = "controller_runtime"
	f, labels := promauto.With(r), prometheus.Labels{"controller": controller}
	counter := func(name, help string) prometheus.Counter {
		return f.NewCounter(prometheus.CounterOpts{Namespace: prefix, Name: name, Help: help, ConstLabels: labels})
	}
	gauge := func(name, help string) prometheus.Gauge {
		return f.NewGauge(prometheus.GaugeOpts{Namespace: prefix, Name: name, Help: help, ConstLabels: labels})
	}
	m := &reconcileMetrics{
		total: f.NewCounterVec(prometheus.CounterOpts{Namespace: prefix, Name: "reconcile_total", ConstLabels: labels,
			Help: "Steps of a service by result: success, error, requeue (there was no valid Snapshot), requeue_after (the time of the next step is set)."}, []string{"result"}),
		errors: counter("reconcile_errors_total", "Steps of a service that failed."),
		panics: counter("reconcile_panics_total", "Steps of a service that panicked; they count as failed too."),
		duration: f.NewHistogram(prometheus.HistogramOpts{Namespace: prefix, Name: "reconcile_time_seconds", ConstLabels: labels,
			Help: "Duration of the steps of a service.", Buckets: reconcileBuckets}),
		active: gauge("active_workers", "1 while a step of a service runs in this process."),
	}
	gauge("max_concurrent_reconciles", "Steps of a service that run at a time: 1.").Set(1)
	for _, result := range []string{resultSuccess, resultError, resultRequeue, resultRequeueAfter} {
		m.total.WithLabelValues(result)
	}
	return m
}

// begin notes that a step runs.
func (m *reconcileMetrics) begin() { m.active.Set(1) }

// end notes how a step ended.
func (m *reconcileMetrics) end(result string, took time.Duration) {
	m.active.Set(0)
	m.duration.Observe(took.Seconds())
	m.total.WithLabelValues(result).Inc()
	if result == resultError {
		m.errors.Inc()
	}
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
func RegisterLibraryMetrics(r prometheus.Registerer) {
	newMasterGauge(r)
	newReconcileMetrics(r, "")
}

// RegisterServiceMetrics registers the metrics of the loop of a service.
func RegisterServiceMetrics(r prometheus.Registerer, service string) { newStepMetrics(r, service) }
