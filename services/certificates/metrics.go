package certificates

import (
	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promauto"
)

type metrics struct {
	expiry   *prometheus.GaugeVec
	renewals *prometheus.CounterVec
	failures prometheus.Counter
}

func newMetrics(r prometheus.Registerer) *metrics {
	f := promauto.With(r)
	return &metrics{
		expiry: f.NewGaugeVec(prometheus.GaugeOpts{Namespace: "millwright", Subsystem: "certificates", Name: "expiry_timestamp_seconds",
			Help: "When the certificate in a Secret expires, by the name of the Secret."}, []string{"secret"}),
		renewals: f.NewCounterVec(prometheus.CounterOpts{Namespace: "millwright", Subsystem: "certificates", Name: "renewals_total",
			Help: "Certificates made or renewed, by the name of the Secret."}, []string{"secret"}),
		failures: f.NewCounter(prometheus.CounterOpts{Namespace: "millwright", Subsystem: "certificates", Name: "sync_failures_total",
			Help: "Failed passes over Secrets, restarts and etcd's users."}),
	}
}

// RegisterMetrics registers the metrics of the package with r, as a running process does; docs/metrics.md is
// made of them.
func RegisterMetrics(r prometheus.Registerer) { newMetrics(r) }
