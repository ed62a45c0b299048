package provisioner

import (
	"strconv"
	"strings"

	"github.com/prometheus/client_golang/prometheus"
	corev1 "k8s.io/api/core/v1"

	karpv1 "millwright/api/karpenter/v1"
	"millwright/planner"
	"millwright/planner/world"
	"millwright/services/internal/service"
)

// podMetrics reads a series for each pod out of the World when it is scraped. A large cluster has many: they
// are there only if somebody asked for them.
type podMetrics struct {
	*clusterMetrics
	state *prometheus.Desc
}

func newPodMetrics(cluster *clusterMetrics) *podMetrics {
	return &podMetrics{cluster, prometheus.NewDesc("karpenter_pods_state",
		"1 for each pod. managed: its node is of a NodePool. The node's labels are empty while it is not bound.",
		[]string{"name", "namespace", "owner", "node", "nodepool", "zone", "arch", "capacity_type", "instance_type", "phase", "scheduled", "ready", "managed"}, nil)}
}

// Describe implements prometheus.Collector.
func (m *podMetrics) Describe(ch chan<- *prometheus.Desc) { ch <- m.state }

// Collect implements prometheus.Collector.
func (m *podMetrics) Collect(ch chan<- prometheus.Metric) {
	if !m.leads() {
		return
	}
	var list []prometheus.Metric // sent after the Snapshot: ch may block
	_ = m.host.Snapshot(service.ForEffects, func(s *planner.Snapshot) error {
		for _, p := range s.World.Pods() {
			list = append(list, gauge(m.state, 1, podValues(p, s.World.Node(p.NodeName))...))
		}
		return nil
	})
	send(ch, list...)
}

// podValues are the labels of a pod; n is nil if its node is not there.
func podValues(p *world.Pod, n *world.Node) []string {
	var of map[string]string
	if n != nil {
		of = n.Object.Labels
	}
	owner := ""
	if p.Class.OwnerKind != "" {
		owner = strings.ToLower(p.Class.OwnerKind) + "/" + p.Class.OwnerName
	}
	return []string{p.Name, p.Namespace, owner, p.NodeName, of[karpv1.NodePoolLabelKey], of[corev1.LabelTopologyZone], of[corev1.LabelArchStable],
		of[karpv1.CapacityTypeLabelKey], of[corev1.LabelInstanceTypeStable], string(p.Phase),
		strconv.FormatBool(p.NodeName != ""), strconv.FormatBool(p.Ready), strconv.FormatBool(of[karpv1.NodePoolLabelKey] != "")}
}

// RegisterPodMetrics registers the series of pods with r, as a process with --pod-metrics does;
// docs/metrics.md is made of them.
func RegisterPodMetrics(r prometheus.Registerer) {
	r.MustRegister(newPodMetrics(nil), newWaitMetrics(nil, nil))
}
