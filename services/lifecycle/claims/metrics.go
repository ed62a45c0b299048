package claims

import (
	"errors"
	"strings"
	"time"
	"unicode"

	"github.com/prometheus/client_golang/prometheus"
	corev1 "k8s.io/api/core/v1"

	karpv1 "millwright/api/karpenter/v1"
	awsv1 "millwright/api/karpenteraws/v1"
	"millwright/planner/claim"
	"millwright/planner/ledger"
	"millwright/services/internal/ec2"
	"millwright/services/internal/service"
	"millwright/services/lifecycle/launch"
)

// metrics with karpenter_* names keep what dashboards ask for (reference: lifecycle §15).
type metrics struct {
	claimsCreated, claimsTerminated, claimsDisrupted *prometheus.CounterVec
	unhealthyDisrupted, podsDisrupted                *prometheus.CounterVec
	nodesCreated, nodesTerminated, launchFailures    *prometheus.CounterVec
	terminationDuration, instanceDuration            *prometheus.HistogramVec
	nodeTermination                                  *prometheus.SummaryVec
	nodeLifetime                                     *prometheus.HistogramVec
	batches                                          *ec2.BatchMetrics
	terminationFailures                              *ec2.TerminationFailures
}

func newMetrics(r prometheus.Registerer) *metrics {
	counter := func(name, help string, labels ...string) *prometheus.CounterVec {
		return prometheus.NewCounterVec(prometheus.CounterOpts{Name: name, Help: help}, labels)
	}
	histogram := func(name, help string, buckets []float64) *prometheus.HistogramVec {
		return prometheus.NewHistogramVec(prometheus.HistogramOpts{Name: name, Help: help, Buckets: buckets}, []string{"nodepool"})
	}
	m := &metrics{
		claimsCreated:    counter("karpenter_nodeclaims_created_total", "NodeClaims created.", "reason", "nodepool", "min_values_relaxed"),
		claimsTerminated: counter("karpenter_nodeclaims_terminated_total", "NodeClaims terminated.", "nodepool", "capacity_type", "zone"),
		claimsDisrupted:  counter("karpenter_nodeclaims_disrupted_total", "NodeClaims disrupted, by reason.", "reason", "nodepool", "capacity_type"),
		podsDisrupted: counter("karpenter_pods_disruption_initiated_total", "Pods, DaemonSets aside, of NodeClaims when their disruption begins, by reason.",
			"reason", "nodepool", "capacity_type"),
		unhealthyDisrupted: counter("karpenter_nodeclaims_unhealthy_disrupted_total", "NodeClaims whose nodes were unhealthy.",
			"condition", "nodepool", "capacity_type", "image_id"),
		nodesCreated:    counter("karpenter_nodes_created_total", "Nodes that joined.", "nodepool", "zone"),
		nodesTerminated: counter("karpenter_nodes_terminated_total", "Nodes terminated.", "nodepool", "zone"),
		launchFailures: counter("karpenter_cloudprovider_instance_launch_failures_total", "Offerings that failed to launch; zone_id is empty if it is not known.",
			"zone", "zone_id", "capacity_type", "reason"),
		terminationDuration: histogram("karpenter_nodeclaims_termination_duration_seconds", "From deletion to the end of the NodeClaim.",
			prometheus.ExponentialBuckets(1, 2, 12)),
		instanceDuration: histogram("karpenter_nodeclaims_instance_termination_duration_seconds", "From the request to the end of the instance.",
			prometheus.ExponentialBuckets(1, 2, 11)),
		nodeTermination: prometheus.NewSummaryVec(prometheus.SummaryOpts{
			Name: "karpenter_nodes_termination_duration_seconds", Help: "From deletion to the end of the Node.",
			Objectives: map[float64]float64{0: 0, 0.5: 0.05, 0.9: 0.01, 0.99: 0.001, 1: 0},
		}, []string{"nodepool"}),
		batches:             ec2.NewBatchMetrics(r),
		terminationFailures: ec2.NewTerminationFailures(r),
		nodeLifetime: histogram("karpenter_nodes_lifetime_duration_seconds", "Age of Nodes when they are terminated.",
			[]float64{900, 1800, 3600, 7200, 21600, 43200, 86400, 172800, 432000, 864000, 1296000, 1728000, 2160000, 2592000}),
	}
	if r != nil {
		r.MustRegister(m.claimsCreated, m.claimsTerminated, m.claimsDisrupted, m.podsDisrupted, m.unhealthyDisrupted, m.nodesCreated, m.nodesTerminated, m.launchFailures,
			m.terminationDuration, m.instanceDuration, m.nodeTermination, m.nodeLifetime)
	}
	return m
}

// created counts a NodeClaim; replaces is why it replaces others, "" if it does not.
func (m *metrics) created(v *claimView, replaces karpv1.DisruptionReason) {
	reason := "provisioned"
	if replaces != "" {
		reason = strings.ToLower(string(replaces))
	}
	relaxed := "false"
	if v.object.Annotations[karpv1.MinValuesRelaxedAnnotationKey] == "true" {
		relaxed = "true"
	}
	m.claimsCreated.WithLabelValues(reason, v.pool(), relaxed).Inc()
}

// capacityType and zone of a claim; empty while there is no instance.
func (v *claimView) capacityType() string {
	if v.ledger != nil && v.ledger.Instance != nil && v.ledger.Instance.CapacityType != "" {
		return v.ledger.Instance.CapacityType
	}
	return v.label(karpv1.CapacityTypeLabelKey)
}

func (v *claimView) zone() string {
	if v.ledger != nil && v.ledger.Instance != nil && v.ledger.Instance.Zone != "" {
		return v.ledger.Instance.Zone
	}
	return v.label(corev1.LabelTopologyZone)
}

func (v *claimView) label(key string) string {
	if v.object == nil {
		return ""
	}
	return v.object.Labels[key]
}

// doomed counts a claim that is to go, with so many pods on its node.
func (m *metrics) doomed(v *claimView, reason string, pods int) {
	m.claimsDisrupted.WithLabelValues(reason, v.pool(), v.capacityType()).Inc()
	m.podsDisrupted.WithLabelValues(reason, v.pool(), v.capacityType()).Add(float64(pods))
	if u := v.input.Unhealthy; reason == claim.ReasonUnhealthy && u != nil {
		m.unhealthyDisrupted.WithLabelValues(snake(u.Condition), v.pool(), v.capacityType(), v.imageID()).Inc()
	}
}

// snake is a condition's name as in labels: StorageReady is storage_ready.
func snake(name string) string {
	var b strings.Builder
	for i, r := range name {
		if unicode.IsUpper(r) && i > 0 {
			b.WriteByte('_')
		}
		b.WriteRune(unicode.ToLower(r))
	}
	return b.String()
}

func (m *metrics) registered(v *claimView) { m.nodesCreated.WithLabelValues(v.pool(), v.zone()).Inc() }

// offeringsFailed counts offerings that failed for claims, nil among them for one that is gone. The ids of
// zones are those that the subnets of their NodeClass have.
func (m *metrics) offeringsFailed(failed []ledger.FailedOffering, claims ...*claimView) {
	var class *awsv1.EC2NodeClass
	for _, v := range claims {
		if class == nil && v != nil {
			class = v.class
		}
	}
	for _, f := range failed {
		m.launchFailures.WithLabelValues(f.Zone, launch.ZoneID(class, nil, f.Zone), f.CapacityType, ec2.FailureReason(f.Code)).Inc()
	}
}

// notTerminated counts that an instance could not be terminated, unless operators have stopped that.
func (m *metrics) notTerminated(v *claimView, err error) {
	if !errors.Is(err, service.ErrStopped) {
		m.terminationFailures.Count(err, v.zone(), v.label(awsv1.LabelTopologyZoneID))
	}
}

// launched together by one request, of which the first was built at a time.
func (m *metrics) launched(claims int, since, now time.Time) {
	m.batches.Observe(ec2.BatcherCreateFleet, max(0, now.Sub(since)), claims)
}

func (m *metrics) instanceTerminated(v *claimView) {
	if o := v.own(); o != nil {
		for _, c := range o.Status.Conditions {
			if c.Type == karpv1.ConditionTypeInstanceTerminating {
				m.instanceDuration.WithLabelValues(v.pool()).Observe(age(v.input.Now, c.LastTransitionTime.Time))
			}
		}
	}
}

func (m *metrics) released(v *claimView) {
	m.claimsTerminated.WithLabelValues(v.pool(), v.capacityType(), v.zone()).Inc()
	if o := v.own(); o != nil && o.DeletionTimestamp != nil {
		m.terminationDuration.WithLabelValues(v.pool()).Observe(age(v.input.Now, o.DeletionTimestamp.Time))
	}
}

func (m *metrics) nodeTerminated(n *corev1.Node, now time.Time) {
	pool := n.Labels[karpv1.NodePoolLabelKey]
	m.nodesTerminated.WithLabelValues(pool, n.Labels[corev1.LabelTopologyZone]).Inc()
	m.nodeLifetime.WithLabelValues(pool).Observe(age(now, n.CreationTimestamp.Time))
	if n.DeletionTimestamp != nil {
		m.nodeTermination.WithLabelValues(pool).Observe(age(now, n.DeletionTimestamp.Time))
	}
}

// RegisterMetrics registers the metrics of the package with r, as a running process does; docs/metrics.md is
// made of them.
func RegisterMetrics(r prometheus.Registerer) { newMetrics(r) }
