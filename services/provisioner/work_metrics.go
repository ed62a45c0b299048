package provisioner

import (
	"slices"
	"strconv"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"millwright/planner"
	"millwright/planner/provision"
	"millwright/services/internal/service"
)

// Values of the label zone for pods that may go to several zones, or to none.
const (
	zoneFlexible = "flexible"
	zoneNone     = "none"
)

// workMetrics tell what the scheduler has before it when it is asked: the round that is being planned, and
// where the pods that wait may go.
type workMetrics struct {
	cluster *clusterMetrics
	times   *podTimes

	unfinished, zones *prometheus.Desc

	mu sync.Mutex
	// began is when the round that is being planned was begun, round its number; zero between rounds.
	began time.Time
	round uint64
}

func newWorkMetrics(cluster *clusterMetrics, times *podTimes) *workMetrics {
	return &workMetrics{
		cluster: cluster, times: times,
		unfinished: prometheus.NewDesc("karpenter_scheduler_unfinished_work_seconds",
			"How long the round that is being planned has taken so far, while there is one; scheduling_id is its number in this process.",
			[]string{"controller", "scheduling_id"}, nil),
		zones: prometheus.NewDesc("karpenter_scheduler_pending_pods_by_effective_zone_count",
			"Pods that wait for a place, by the zone that their own selectors and volumes allow: its name, flexible if there are several, none.",
			[]string{"controller", "zone"}, nil),
	}
}

// begin notes that a round is being planned, until end is called.
func (m *workMetrics) begin(now time.Time) (end func()) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.began = now
	m.round++
	return func() {
		m.mu.Lock()
		defer m.mu.Unlock()
		m.began = time.Time{}
	}
}

// Describe implements prometheus.Collector.
func (m *workMetrics) Describe(ch chan<- *prometheus.Desc) {
	ch <- m.unfinished
	ch <- m.zones
}

// Collect implements prometheus.Collector.
func (m *workMetrics) Collect(ch chan<- prometheus.Metric) {
	if !m.cluster.leads() {
		m.times.forget()
		return
	}
	m.mu.Lock()
	began, round := m.began, m.round
	m.mu.Unlock()
	if !began.IsZero() {
		send(ch, gauge(m.unfinished, since(began, m.cluster.host.Now()), controller, strconv.FormatUint(round, 10)))
	}
	var counts map[string]int
	_ = m.cluster.host.Snapshot(service.ForEffects, func(s *planner.Snapshot) error {
		counts = pendingByZone(s)
		return nil
	})
	for zone, n := range counts {
		send(ch, gauge(m.zones, float64(n), controller, zone))
	}
}

// pendingByZone counts the pods that wait for a place.
func pendingByZone(s *planner.Snapshot) map[string]int {
	counts := map[string]int{zoneFlexible: 0, zoneNone: 0}
	pending := s.World.PendingPods()
	if !slices.ContainsFunc(pending, planner.IsProvisionable) {
		return counts
	}
	zones := provision.NewZones(s.World)
	for _, p := range pending {
		if !planner.IsProvisionable(p) {
			continue
		}
		switch of := zones.Of(p); len(of) {
		case 0:
			counts[zoneNone]++
		case 1:
			counts[of[0]]++
		default:
			counts[zoneFlexible]++
		}
	}
	return counts
}
