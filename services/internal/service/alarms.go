package service

import (
	"errors"

	"github.com/prometheus/client_golang/prometheus"
)

// NewAlarmCounter returns the counter of alarms with r, which may be nil: one for all services of a process
// that raise any. It has the reasons of the caller from the start, since the increase by the first alarm
// would not be seen otherwise.
func NewAlarmCounter(r prometheus.Registerer, reasons ...string) *prometheus.CounterVec {
	c := prometheus.NewCounterVec(prometheus.CounterOpts{Name: "millwright_lifecycle_alarms_total",
		Help: "Acts held back until a person has looked (garbage_collection_held, missing_nodes_held, orphans_held), or paced because " +
			"they follow from time alone (expired_paced, launch_timeout_paced, registration_timeout_paced, node_gone_paced, " +
			"unhealthy_paced, capacity_block_ending_paced, drain_deadline_paced), by reason. Counted once until there has been no reason for 10 minutes.",
	}, []string{"reason"})
	if r != nil {
		err := r.Register(c)
		if already, ok := errors.AsType[prometheus.AlreadyRegisteredError](err); ok {
			c = already.ExistingCollector.(*prometheus.CounterVec)
		} else if err != nil {
			panic(err) // two different metrics with one name
		}
	}
	for _, reason := range reasons {
		c.WithLabelValues(reason)
	}
	return c
}

// RegisterMetrics registers the metrics of the package with r, as a running process does; docs/metrics.md is
// made of them.
func RegisterMetrics(r prometheus.Registerer) { NewAlarmCounter(r) }
