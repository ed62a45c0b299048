package watcher

import (
	"github.com/prometheus/client_golang/prometheus"

	"millwright/events"
)

const namespace, subsystem = "millwright", "watcher"

type metrics struct {
	published          *prometheus.CounterVec
	unreadable         *prometheus.CounterVec
	resyncs            prometheus.Counter
	heartbeatsWithheld prometheus.Counter
	queue              prometheus.Gauge
	streamLast, folded prometheus.Gauge
	checkpoints        *prometheus.CounterVec
	checkpointBytes    prometheus.Gauge
	refused            prometheus.Counter
}

func newMetrics(r prometheus.Registerer) *metrics {
	m := &metrics{
		published:          counters("published_total", "Observations published, by kind and op.", "kind", "op"),
		unreadable:         counters("unreadable_total", "Objects that are too large to publish, or cannot be encoded, by kind.", "kind"),
		resyncs:            counter("resyncs_total", "Epochs begun, also those that failed at once because the bus was away."),
		heartbeatsWithheld: counter("heartbeats_withheld_total", "Heartbeats not published because a watch was interrupted or the API server did not answer."),
		queue:              gauge("queue_messages", "Publishes without acknowledgement, at the last heartbeat."),
		streamLast:         gauge("stream_last_sequence", "Last sequence of the stream, at the last heartbeat."),
		folded:             gauge("folded_sequence", "Last sequence folded for checkpoints; less than the stream's is lag."),
		checkpoints:        counters("checkpoints_total", "World checkpoints, by outcome.", "outcome"),
		checkpointBytes:    gauge("checkpoint_bytes", "Size of the last World checkpoint."),
		refused:            counter("refused_total", "Messages that could not be decoded or resolved."),
	}
	if r != nil {
		r.MustRegister(m.published, m.unreadable, m.resyncs, m.heartbeatsWithheld, m.queue, m.streamLast, m.folded,
			m.checkpoints, m.checkpointBytes, m.refused)
	}
	return m
}

func counter(name, help string) prometheus.Counter {
	return prometheus.NewCounter(prometheus.CounterOpts{Namespace: namespace, Subsystem: subsystem, Name: name, Help: help})
}

func counters(name, help string, labels ...string) *prometheus.CounterVec {
	return prometheus.NewCounterVec(prometheus.CounterOpts{Namespace: namespace, Subsystem: subsystem, Name: name, Help: help}, labels)
}

func gauge(name, help string) prometheus.Gauge {
	return prometheus.NewGauge(prometheus.GaugeOpts{Namespace: namespace, Subsystem: subsystem, Name: name, Help: help})
}

// observeQueue publishes how many publishes are not acknowledged, for a stream that can tell.
func (m *metrics) observeQueue(s events.Stream) {
	if q, ok := s.(interface{ Pending() int }); ok {
		m.queue.Set(float64(q.Pending()))
	}
}

// RegisterMetrics registers the metrics of the package with r, as a running process does; docs/metrics.md is
// made of them.
func RegisterMetrics(r prometheus.Registerer) { newMetrics(r) }
