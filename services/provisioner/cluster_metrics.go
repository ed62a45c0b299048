package provisioner

import (
	"cmp"
	"slices"
	"strings"
	"sync/atomic"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	corev1 "k8s.io/api/core/v1"

	karpv1 "millwright/api/karpenter/v1"
	"millwright/planner"
	"millwright/planner/catalog"
	"millwright/planner/ledger"
	"millwright/planner/resource"
	"millwright/services/internal/service"
)

// nodeLabels are the labels of a node that its series carry, by the name in the series (reference: operations
// §2.4).
var nodeLabels = []struct{ series, label string }{
	{"nodepool", karpv1.NodePoolLabelKey}, {"zone", corev1.LabelTopologyZone}, {"region", corev1.LabelTopologyRegion},
	{"instance_type", corev1.LabelInstanceTypeStable}, {"arch", corev1.LabelArchStable}, {"os", corev1.LabelOSStable},
	{"capacity_type", karpv1.CapacityTypeLabelKey}, {"instance_category", "karpenter.k8s.aws/instance-category"},
	{"instance_family", "karpenter.k8s.aws/instance-family"}, {"instance_generation", "karpenter.k8s.aws/instance-generation"},
	{"instance_size", "karpenter.k8s.aws/instance-size"}, {"instance_cpu", "karpenter.k8s.aws/instance-cpu"},
	{"instance_memory", "karpenter.k8s.aws/instance-memory"},
}

// leadingFor is how long after its last step the service still counts as leading: a standby must not repeat
// the series.
const leadingFor = 30 * time.Second

// clusterMetrics reads the World when it is scraped: but for sums of limits nothing is kept per node or per
// pod.
type clusterMetrics struct {
	host    service.Host
	stepped atomic.Int64

	limits nodeLimits

	allocatable, podRequests, daemonRequests, overhead *prometheus.Desc
	podLimits, daemonLimits                            *prometheus.Desc
	lifetime, utilization                              *prometheus.Desc
	limit, usage, cost                                 *prometheus.Desc
	price, available, cpuCores, memoryBytes            *prometheus.Desc
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
	const ofTypes = "karpenter_cloudprovider_instance_type_"
	offering := []string{"instance_type", "capacity_type", "zone"}
	return &clusterMetrics{
		price:       prometheus.NewDesc(ofTypes+"offering_price_estimate", "USD per hour of an offering of an instance type that nodes have.", offering, nil),
		available:   prometheus.NewDesc(ofTypes+"offering_available", "1 if an offering of an instance type that nodes have could be launched now, else 0.", offering, nil),
		cpuCores:    prometheus.NewDesc(ofTypes+"cpu_cores", "Cores of an instance type that nodes have.", offering[:1], nil),
		memoryBytes: prometheus.NewDesc(ofTypes+"memory_bytes", "Memory of an instance type that nodes have.", offering[:1], nil),
		lifetime:    prometheus.NewDesc("karpenter_nodes_current_lifetime_seconds", "Age of a node.", labels, nil),
		utilization: prometheus.NewDesc("karpenter_cluster_utilization_percent",
			"Share of what pods can have of all nodes that pods request, in percent.", []string{"resource_type"}, nil),
		cost: prometheus.NewDesc("karpenter_nodepools_cost_total",
			"What the nodes of a NodePool cost in USD per hour, by the prices known; nodes of unknown price count as 0.", []string{"nodepool"}, nil),
		host: host, allocatable: node("allocatable", "What pods can have of a node."),
		podRequests:    node("total_pod_requests", "What the pods of a node request, DaemonSets included."),
		daemonRequests: node("total_daemon_requests", "What the DaemonSet pods of a node request."),
		podLimits:      node("total_pod_limits", "What the pods of a node are limited to, DaemonSets included; one without a limit adds nothing but itself."),
		daemonLimits:   node("total_daemon_limits", "What the DaemonSet pods of a node are limited to; one without a limit adds nothing but itself."),
		overhead:       node("system_overhead", "Capacity of a node less what pods can have of it."),
		limit:          pool("limit", "Limit of a NodePool."), usage: pool("usage", "Capacity of a NodePool's nodes."),
	}
}

// Describe implements prometheus.Collector.
func (m *clusterMetrics) Describe(ch chan<- *prometheus.Desc) {
	for _, d := range []*prometheus.Desc{m.allocatable, m.podRequests, m.daemonRequests, m.podLimits, m.daemonLimits, m.overhead, m.lifetime, m.utilization,
		m.limit, m.usage, m.cost, m.price, m.available, m.cpuCores, m.memoryBytes} {
		ch <- d
	}
}

// Collect implements prometheus.Collector.
func (m *clusterMetrics) Collect(ch chan<- prometheus.Metric) {
	if !m.leads() {
		return
	}
	var list []prometheus.Metric // sent after the Snapshot: ch may block
	_ = m.host.Snapshot(service.ForEffects, func(s *planner.Snapshot) error {
		list = slices.Concat(m.ofNodes(s), m.ofPools(s), m.ofTypes(s))
		return nil
	})
	send(ch, list...)
}

// leads reports that the service has led lately.
func (m *clusterMetrics) leads() bool {
	return m.host.Now().Sub(time.Unix(0, m.stepped.Load())) <= leadingFor
}

// ofNodes are the series of each node and those of all together.
func (m *clusterMetrics) ofNodes(s *planner.Snapshot) (list []prometheus.Metric) {
	var allocatable, used resource.Vector
	limits := m.limits.of(s.World)
	for _, n := range s.World.Nodes() {
		values := nodeValues(n.Object)
		list = append(list, gauges(m.allocatable, n.Allocatable, values)...)
		list = append(list, gauges(m.podRequests, n.Used, values)...)
		list = append(list, gauges(m.daemonRequests, n.DaemonUsed, values)...)
		list = append(list, gauges(m.podLimits, limits[n.Object.Name].pods, values)...)
		list = append(list, gauges(m.daemonLimits, limits[n.Object.Name].daemons, values)...)
		list = append(list, gauges(m.overhead, n.Capacity.Sub(n.Allocatable), values)...)
		list = append(list, gauge(m.lifetime, s.Now.Sub(n.Object.CreationTimestamp.Time).Seconds(), values...))
		allocatable, used = allocatable.Add(n.Allocatable), used.Add(n.Used)
	}
	totals, uses := amounts(allocatable), amounts(used)
	for name, total := range totals {
		if total > 0 {
			list = append(list, gauge(m.utilization, 100*uses[name]/total, name))
		}
	}
	return list
}

// ofPools are the series of each NodePool.
func (m *clusterMetrics) ofPools(s *planner.Snapshot) (list []prometheus.Metric) {
	cost := map[string]int64{}
	for _, n := range s.World.Nodes() {
		l := n.Object.Labels
		cost[l[karpv1.NodePoolLabelKey]] += s.World.Price(l[corev1.LabelInstanceTypeStable], l[karpv1.CapacityTypeLabelKey], l[corev1.LabelTopologyZone])
	}
	for _, p := range s.World.NodePools() {
		list = append(list, gauges(m.limit, resource.From(corev1.ResourceList(p.Spec.Limits)), []string{p.Name})...)
		list = append(list, gauges(m.usage, resource.From(p.Status.Resources), []string{p.Name})...)
		list = append(list, gauge(m.cost, float64(cost[p.Name])/1e6, p.Name))
	}
	return list
}

// ofTypes are the series of the instance types that nodes have, and of all their offerings: those of all
// others would be some thousands.
func (m *clusterMetrics) ofTypes(s *planner.Snapshot) (list []prometheus.Metric) {
	used, seen := map[string]bool{}, map[string]bool{}
	for _, n := range s.World.Nodes() {
		used[n.Object.Labels[corev1.LabelInstanceTypeStable]] = true
	}
	offered := map[ledger.OfferingKey]offer{}
	for _, class := range s.World.NodeClasses() {
		c := s.World.Catalog(class.Name)
		if c == nil {
			continue
		}
		for _, t := range c.Types {
			if !used[t.Name] {
				continue
			}
			if !seen[t.Name] {
				seen[t.Name] = true
				list = append(list, gauge(m.cpuCores, float64(t.Capacity.Get(corev1.ResourceCPU))/1000, t.Name),
					gauge(m.memoryBytes, float64(t.Capacity.Get(corev1.ResourceMemory)), t.Name))
			}
			addOffers(offered, t, s)
		}
	}
	for key, o := range offered {
		available := 0.0
		if o.available {
			available = 1
		}
		list = append(list, gauge(m.available, available, key.InstanceType, key.CapacityType, key.Zone))
		if o.price > 0 { // it is known
			list = append(list, gauge(m.price, float64(o.price)/1e6, key.InstanceType, key.CapacityType, key.Zone))
		}
	}
	return list
}

// offer is what is told of all offerings of an instance type that have zone and capacity type in common:
// those of several NodeClasses, reservations and placement groups. It is available if one of them is, and the
// price is the first that is known.
type offer struct {
	available bool
	price     int64
}

func addOffers(offered map[ledger.OfferingKey]offer, t *catalog.InstanceType, s *planner.Snapshot) {
	for i := range t.Offerings {
		from := &t.Offerings[i]
		key := ledger.OfferingKey{InstanceType: t.Name, Zone: from.Zone, CapacityType: from.CapacityType}
		marked := key
		marked.PlacementGroup = from.Group()
		o := offered[key]
		o.available = o.available || from.Available && !s.Ledger.Unavailable(marked, s.Now)
		o.price = cmp.Or(o.price, from.Price)
		offered[key] = o
	}
}

// seriesName of a resource: its name as the values of resource_type have it.
func seriesName(name corev1.ResourceName) string {
	return strings.ReplaceAll(strings.ToLower(string(name)), "-", "_")
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
	for name, amount := range amounts(v) {
		list = append(list, gauge(d, amount, append(slices.Clone(values), name)...))
	}
	return list
}

// amounts by seriesName; resources whose names differ only in what it leaves out count together, because a
// series that is there twice fails the whole scrape.
func amounts(v resource.Vector) map[string]float64 {
	all := map[string]float64{}
	for _, name := range v.Names() {
		amount := float64(v.Get(name))
		if name == resource.CPU {
			amount /= 1000
		}
		all[validLabel(seriesName(name))] += amount
	}
	return all
}
