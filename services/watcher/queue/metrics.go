package queue

import "github.com/prometheus/client_golang/prometheus"

// metrics with karpenter_* names keep what dashboards ask for (reference: operations §2).
type metrics struct {
	received                      *prometheus.CounterVec
	failures                      *prometheus.CounterVec
	deleted, unparsable           prometheus.Counter
	latency                       prometheus.Histogram
	oldest, readable, lastReceive prometheus.Gauge
}

func newMetrics(r prometheus.Registerer) *metrics {
	m := &metrics{
		received: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "karpenter_interruption_received_messages_total", Help: "Messages received from the interruption queue, by kind.",
		}, []string{"message_type"}),
		deleted: prometheus.NewCounter(prometheus.CounterOpts{
			Name: "karpenter_interruption_deleted_messages_total", Help: "Messages deleted from the interruption queue.",
		}),
		latency: prometheus.NewHistogram(prometheus.HistogramOpts{
			Name: "karpenter_interruption_message_queue_duration_seconds", Help: "From the time of a message to its receipt.",
			Buckets: []float64{.005, .01, .025, .05, .1, .25, .5, 1, 2.5, 5, 10, 30, 60, 120, 150, 300, 450, 600},
		}),
		failures: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "millwright_watcher_interruption_failures_total", Help: "Times the interruption queue could not be read, by reason.",
		}, []string{"reason"}),
		unparsable: prometheus.NewCounter(prometheus.CounterOpts{
			Name: "millwright_watcher_interruption_unparsable_total", Help: "Messages of the interruption queue that nobody can read; they are deleted.",
		}),
		oldest: prometheus.NewGauge(prometheus.GaugeOpts{
			Name: "millwright_watcher_interruption_oldest_message_age_seconds", Help: "Age of the oldest message received last; 0 if there was none.",
		}),
		readable: prometheus.NewGauge(prometheus.GaugeOpts{
			Name: "millwright_watcher_interruption_readable", Help: "1 if the interruption queue could be read last, 0 if not.",
		}),
		lastReceive: prometheus.NewGauge(prometheus.GaugeOpts{
			Name: "millwright_watcher_interruption_last_success_timestamp_seconds", Help: "When SQS last answered, with messages or without.",
		}),
	}
	if r != nil {
		r.MustRegister(m.received, m.deleted, m.latency, m.failures, m.unparsable, m.oldest, m.readable, m.lastReceive)
	}
	return m
}

// forget: whether the queue can be read is the affair of who leads next.
func (m *metrics) forget() {
	m.readable.Set(0)
	m.oldest.Set(0)
}

// RegisterMetrics registers the metrics of the package with r, as a running process does; docs/metrics.md is
// made of them.
func RegisterMetrics(r prometheus.Registerer) { newMetrics(r) }
