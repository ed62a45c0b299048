package ec2

import (
	"errors"
	"time"

	"github.com/prometheus/client_golang/prometheus"
)

type metrics struct {
	polls *prometheus.CounterVec
	last  *prometheus.GaugeVec
	// unhealthy keeps the name that dashboards ask for.
	unhealthy *prometheus.CounterVec
}

// newMetrics registers with r; nil: with nothing.
func newMetrics(r prometheus.Registerer) *metrics {
	m := &metrics{
		polls: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "millwright_watcher_aws_polls_total", Help: "Polls of AWS, by what was asked for and outcome.",
		}, []string{"poll", "outcome"}),
		last: prometheus.NewGaugeVec(prometheus.GaugeOpts{
			Name: "millwright_watcher_aws_last_success_timestamp_seconds", Help: "When a poll of AWS last succeeded.",
		}, []string{"poll"}),
	}
	m.unhealthy = prometheus.NewCounterVec(prometheus.CounterOpts{
		Name: "karpenter_interruption_instance_status_unhealthy_total", Help: "Our instances that began to fail a check of their status, or have an event scheduled.",
	}, []string{"category"})
	if r != nil {
		r.MustRegister(m.polls, m.last, m.unhealthy)
	}
	return m
}

// expose serves a poll's outcomes before it has any: of a series that begins with the first one no increase
// can be told.
func (m *metrics) expose(poll string) {
	m.polls.WithLabelValues(poll, "failed")
	m.polls.WithLabelValues(poll, "succeeded")
}

func (m *metrics) polled(poll string, err error, now time.Time) {
	switch {
	case errors.Is(err, errNotYet):
	case err != nil:
		m.polls.WithLabelValues(poll, "failed").Inc()
	default:
		m.polls.WithLabelValues(poll, "succeeded").Inc()
		m.last.WithLabelValues(poll).Set(float64(now.Unix()))
	}
}

// RegisterMetrics registers the metrics of the package with r, as a running process does; docs/metrics.md is
// made of them.
func RegisterMetrics(r prometheus.Registerer) { newMetrics(r) }
