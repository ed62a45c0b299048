package terminator

import (
	"errors"
	"strconv"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promauto"
	apierrors "k8s.io/apimachinery/pkg/api/errors"

	karpv1 "millwright/api/karpenter/v1"
	"millwright/services/internal/service"
)

type metrics struct {
	evictions    *prometheus.CounterVec
	podsDrained  *prometheus.CounterVec
	nodesDrained *prometheus.CounterVec
	surges       *prometheus.CounterVec
	alarms       *prometheus.CounterVec
}

// deadlinePaced is the reason of the alarm that drains wait whose deadlines have come.
const deadlinePaced = "drain_deadline_paced"

// newMetrics registers the names that users know (reference: operations §2).
func newMetrics(r prometheus.Registerer) *metrics {
	f := promauto.With(r)
	return &metrics{
		alarms: service.NewAlarmCounter(r, deadlinePaced),
		evictions: f.NewCounterVec(prometheus.CounterOpts{Namespace: "karpenter", Name: "pods_eviction_requests_total",
			Help: "Requests to the Eviction API, by status code; 0 if there was no answer."}, []string{"code"}),
		podsDrained: f.NewCounterVec(prometheus.CounterOpts{Namespace: "karpenter", Name: "pods_drained_total",
			Help: "Pods whose eviction was accepted, by the reason of the drain."}, []string{"reason"}),
		nodesDrained: f.NewCounterVec(prometheus.CounterOpts{Namespace: "karpenter", Name: "nodes_drained_total",
			Help: "Nodes that were drained."}, []string{"nodepool"}),
		surges: f.NewCounterVec(prometheus.CounterOpts{Namespace: "millwright", Subsystem: "terminator", Name: "surges_total",
			Help: "Decisions on pods that nothing stands in for, where a DisruptionPolicy asks for surge: started, refused because their owner can't replace them first, " +
				"or late, which are pods that were not replaced in time."}, []string{"result"}),
	}
}

func (m *metrics) evicted(err error) {
	code := "201"
	if err != nil {
		code = "0"
		var status apierrors.APIStatus
		if errors.As(err, &status) {
			code = strconv.Itoa(int(status.Status().Code))
		}
	}
	m.evictions.WithLabelValues(code).Inc()
}

func (m *metrics) surged(refused string) {
	result := "started"
	if refused != "" {
		result = "refused"
	}
	m.surges.WithLabelValues(result).Inc()
}

func (m *metrics) nodeDrained(p *plan) {
	m.nodesDrained.WithLabelValues(p.node.Labels[karpv1.NodePoolLabelKey]).Inc()
}

// RegisterMetrics registers the metrics of the package with r, as a running process does; docs/metrics.md is
// made of them.
func RegisterMetrics(r prometheus.Registerer) { newMetrics(r) }
