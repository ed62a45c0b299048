package garbage

import "github.com/prometheus/client_golang/prometheus"

func newAlarmCounter() *prometheus.CounterVec {
	return prometheus.NewCounterVec(prometheus.CounterOpts{Name: "millwright_lifecycle_alarms_total",
		Help: "Acts held back until a person has looked (garbage_collection_held, missing_nodes_held, orphans_held), or paced because " +
			"they follow from time alone (expired_paced, launch_timeout_paced, registration_timeout_paced, node_gone_paced, " +
			"unhealthy_paced, drain_deadline_paced), by reason. Counted once until there has been no reason for 10 minutes.",
	}, []string{"reason"})
}

func newOrphanCounter() prometheus.Counter {
	return prometheus.NewCounter(prometheus.CounterOpts{Name: "millwright_lifecycle_orphans_total",
		Help: "Instances terminated because no NodeClaim has them."})
}

// RegisterMetrics registers the metrics of the package with r, as a running process does; docs/metrics.md is
// made of them.
func RegisterMetrics(r prometheus.Registerer) { r.MustRegister(newAlarmCounter(), newOrphanCounter()) }
