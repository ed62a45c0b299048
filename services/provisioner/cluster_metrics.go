package provisioner

import (
	"strings"
	"sync/atomic"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	corev1 "k8s.io/api/core/v1"

	karpv1 "millwright/api/karpenter/v1"
	"millwright/planner"
	"millwright/planner/resource"
	"millwright/services/internal/service"
)

// nodeLabels are the labels of a node that its series carry, by the name in the series (reference: operations §2.4).
var nodeLabels = []struct{ series, label string }{
	{"nodepool", karpv1.NodePoolLabelKey}, {"zone", corev1.LabelTopologyZone}, {"region", corev1.LabelTopologyRegion},
	{"instance_type", corev1.LabelInstanceTypeStable}, {"arch", corev1.LabelArchStable}, {"os", corev1.LabelOSStable},
	{"capacity_type", karpv1.CapacityTypeLabelKey}, {"instance_category", "karpenter.k8s.aws/instance-category"},
	{"instance_family", "karpenter.k8s.aws/instance-family"}, {"instance_generation", "karpenter.k8s.aws/instance-generation"},
	{"instance_size", "karpenter.k8s.aws/instance-size"}, {"instance_cpu", "karpenter.k8s.aws/instance-cpu"},
	{"instance_memory", "karpenter.k8s.aws/instance-memory"},
}

// leadingFor is how long after its last step the service still counts as leading: a standby must not repeat the series.
const leadingFor = 30 * time.Second

// clusterMetrics reads the World when it is scraped: nothing is kept per node or per pod.
type clusterMetrics struct {
	host    service.Host
	stepped atomic.Int64

	allocatable, podRequests, daemonRequests, overhead *prometheus.Desc
	limit, usage                                       *prometheus.Desc
}

func newClusterMetrics(host service.Host) *clusterMetrics {
	labels := []string{"node_name", "phase"}
	for _, l := range nodeLabels {
		labels = append(labels, l.series)
	}
	node := func(name, help string) *prometheus.Desc {
		return prometheus.NewDesc("karpenter_nodes_"+name, help, append(labels, "resource_type"), nil)
	}
	pool := func(name, help string) *prometheus.Desc {
		return prometheus.NewDesc("karpenter_nodepools_"+name, help, []string{"nodepool", "resource_type"}, nil)
	}
	return &clusterMetrics{
		host: host, allocatable: node("allocatable", "What pods can have of a node."),
		podRequests:    node("total_pod_requests", "What the pods of a node request, DaemonSets included."),
		daemonRequests: node("total_daemon_requests", "What the DaemonSet pods of a node request."),
		overhead:       node("system_overhead", "Capacity of a node less what pods can have of it."),
		limit:          pool("limit", "Limit of a NodePool."), usage: pool("usage", "Capacity of a NodePool's nodes."),
	}
}

// Describe implements prometheus.Collector.
func (m *clusterMetrics) Describe(ch chan<- *prometheus.Desc) {
	for _, d := range []*prometheus.Desc{m.allocatable, m.podRequests, m.daemonRequests, m.overhead, m.limit, m.usage} {
		ch <- d
	}
}

// Collect implements prometheus.Collector.
func (m *clusterMetrics) Collect(ch chan<- prometheus.Metric) {
	if m.host.Now().Sub(time.Unix(0, m.stepped.Load())) > leadingFor {
		return
	}
	var list []prometheus.Metric // sent after the Snapshot: ch may block
	_ = m.host.Snapshot(service.ForEffects, func(s *planner.Snapshot) error {
		for _, n := range s.World.Nodes() {
			values := nodeValues(n.Object)
			list = append(list, gauges(m.allocatable, n.Allocatable, values)...)
			list = append(list, gauges(m.podRequests, n.Used, values)...)
			list = append(list, gauges(m.daemonRequests, n.DaemonUsed, values)...)
			list = append(list, gauges(m.overhead, n.Capacity.Sub(n.Allocatable), values)...)
		}
		for _, p := range s.World.NodePools() {
			list = append(list, gauges(m.limit, resource.From(corev1.ResourceList(p.Spec.Limits)), []string{p.Name})...)
			list = append(list, gauges(m.usage, resource.From(p.Status.Resources), []string{p.Name})...)
		}
		return nil
	})
	for _, metric := range list {
		ch <- metric
	}
}

func nodeValues(n *corev1.Node) []string {
	values := []string{n.Name, string(n.Status.Phase)}
	for _, l := range nodeLabels {
		values = append(values, n.Labels[l.label])
	}
	return values
}

// gauges has one series per resource: cores of CPU, base units of the rest.
func gauges(d *prometheus.Desc, v resource.Vector, values []string) []prometheus.Metric {
	var list []prometheus.Metric
	for _, name := range v.Names() {
		amount := float64(v.Get(name))
		if name == resource.CPU {
			amount /= 1000
		}
		kind := strings.ReplaceAll(strings.ToLower(string(name)), "-", "_")
		list = append(list, prometheus.MustNewConstMetric(d, prometheus.GaugeValue, amount, append(append([]string{}, values...), kind)...))
	}
	return list
}
