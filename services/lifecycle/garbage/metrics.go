package garbage

import (
	"github.com/prometheus/client_golang/prometheus"

	"millwright/planner/claim"
	"millwright/services/internal/service"
)

// paced is what the reason of an alarm ends with that is about one for which NodeClaims go by time alone.
const paced = "_paced"

// newAlarmCounter counts what lifecycle raises.
func newAlarmCounter(r prometheus.Registerer) *prometheus.CounterVec {
	reasons := []string{"garbage_collection_held", "missing_nodes_held", "orphans_held"}
	for _, reason := range claim.TimedReasons {
		reasons = append(reasons, reason+paced)
	}
	return service.NewAlarmCounter(r, reasons...)
}

func newOrphanCounter() prometheus.Counter {
	return prometheus.NewCounter(prometheus.CounterOpts{Name: "millwright_lifecycle_orphans_total",
		Help: "Instances terminated because no NodeClaim has them."})
}

// RegisterMetrics registers the metrics of the package with r, as a running process does; docs/metrics.md is
// made of them.
func RegisterMetrics(r prometheus.Registerer) { r.MustRegister(newOrphanCounter()) }
