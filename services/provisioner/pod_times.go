package provisioner

import (
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promauto"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"millwright/planner"
	"millwright/planner/provision"
	"millwright/planner/world"
)

// podTimes measures how long pods wait, from when they were made until they have a node and until they are
// ready (reference: operations §2.2). It is told what has changed in the World, and remembers pods that it
// has seen pending until they are ready, have ended or are gone. What happened while the service did not lead
// is not measured; times are those at which something was seen. nil measures nothing.
type podTimes struct {
	bound, provisioningBound, provisioningStartup prometheus.Histogram
	startup                                       prometheus.Summary

	mu sync.Mutex
	// seen is the World's pods when they were last looked at, and at when that was.
	seen world.PodVersion
	at   time.Time
	pods map[types.UID]*podTime
}

// podTime is what is remembered of a pod.
type podTime struct {
	namespace, name string
	created         time.Time
	bound           bool
	// waits is since when the pod needs a place, decided whether a round has considered it, and placed when
	// one first found it a place. Zero: it does not, or was not.
	waits, placed time.Time
	decided       bool
}

func newPodTimes(r prometheus.Registerer) *podTimes {
	if r == nil {
		return nil
	}
	f := promauto.With(r)
	histogram := func(name, help string) prometheus.Histogram {
		return f.NewHistogram(prometheus.HistogramOpts{Namespace: "karpenter", Subsystem: "pods", Name: name, Help: help, Buckets: durationBuckets})
	}
	return &podTimes{
		pods:  map[types.UID]*podTime{},
		bound: histogram("bound_duration_seconds", "From the creation of a pod until it was seen to have a node."),
		provisioningBound: histogram("provisioning_bound_duration_seconds",
			"From the first round that found a place for a pod until it was seen to have a node."),
		provisioningStartup: histogram("provisioning_startup_duration_seconds",
			"From the first round that found a place for a pod until it was seen to be ready."),
		startup: f.NewSummary(prometheus.SummaryOpts{Namespace: "karpenter", Subsystem: "pods", Name: "startup_duration_seconds",
			Help:       "From the creation of a pod until it was seen to be ready, if it was seen pending before.",
			Objectives: map[float64]float64{0: 0, 0.5: 0.05, 0.9: 0.01, 0.99: 0.001, 1: 0}}),
	}
}

// note takes in what has changed since the last time.
func (m *podTimes) note(s *planner.Snapshot) {
	if m == nil {
		return
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	first := s.Now.Sub(m.at).Abs() > leadingFor // it has led only now, or was held up: what happened meanwhile is not known
	if first {
		m.seen, m.pods = world.PodVersion{}, map[types.UID]*podTime{}
	}
	m.at = s.Now
	m.seen = s.World.PodsSince(m.seen, func(was, is *world.Pod) {
		switch {
		case is == nil:
			delete(m.pods, was.UID)
		default:
			m.changed(is, s, first)
		}
	})
}

// changed takes in a pod as it is now.
func (m *podTimes) changed(p *world.Pod, s *planner.Snapshot, first bool) {
	t := m.pods[p.UID]
	if t == nil {
		if p.Phase != corev1.PodPending || !p.Active() {
			return
		}
		t = &podTime{namespace: p.Namespace, name: p.Name, created: time.Unix(0, p.Created), bound: first && p.NodeName != ""}
		m.pods[p.UID] = t
	}
	if t.waits.IsZero() && planner.IsProvisionable(p) {
		t.waits, t.decided = s.Now, s.Ledger.Verdict(p.UID) != nil
	}
	if p.NodeName != "" && !t.bound {
		t.bound = true
		m.bound.Observe(since(t.created, s.Now))
		if !t.placed.IsZero() {
			m.provisioningBound.Observe(since(t.placed, s.Now))
		}
	}
	switch {
	case p.Terminal():
		delete(m.pods, p.UID)
	case p.Ready:
		m.startup.Observe(since(t.created, s.Now))
		if !t.placed.IsZero() {
			m.provisioningStartup.Observe(since(t.placed, s.Now))
		}
		delete(m.pods, p.UID)
	}
}

// decide takes in the verdicts of a round.
func (m *podTimes) decide(verdicts []provision.PodVerdict, now time.Time) {
	if m == nil {
		return
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	for _, v := range verdicts {
		t := m.pods[v.Pod.UID]
		if t == nil {
			continue
		}
		t.decided = true
		if len(v.Reasons) == 0 && t.placed.IsZero() {
			t.placed = now
		}
	}
}

// forget everything: the service does not lead any more.
func (m *podTimes) forget() {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.seen, m.at, m.pods = world.PodVersion{}, time.Time{}, map[types.UID]*podTime{}
}

// all returns what is remembered.
func (m *podTimes) all() (list []podTime) {
	m.mu.Lock()
	defer m.mu.Unlock()
	for _, t := range m.pods {
		list = append(list, *t)
	}
	return list
}

func since(then, now time.Time) float64 { return max(now.Sub(then).Seconds(), 0) }

// waitMetrics are series of single pods, of those that podTimes remembers.
type waitMetrics struct {
	cluster *clusterMetrics
	times   *podTimes

	unbound, unstarted, provisioningUnbound, provisioningUnstarted, undecided *prometheus.Desc
}

func newWaitMetrics(cluster *clusterMetrics, times *podTimes) *waitMetrics {
	desc := func(name, help string) *prometheus.Desc {
		return prometheus.NewDesc("karpenter_pods_"+name+"_time_seconds", help, []string{"name", "namespace"}, nil)
	}
	return &waitMetrics{
		cluster: cluster, times: times,
		unbound:               desc("unbound", "Age of a pod that has no node."),
		unstarted:             desc("unstarted", "Age of a pod that was pending and has not been ready since."),
		provisioningUnbound:   desc("provisioning_unbound", "Time since a round first found a place for a pod that has no node."),
		provisioningUnstarted: desc("provisioning_unstarted", "Time since a round first found a place for a pod that was pending and has not been ready since."),
		undecided:             desc("provisioning_scheduling_undecided", "Time since a pod was seen to need a place that no round has considered."),
	}
}

// Describe implements prometheus.Collector.
func (m *waitMetrics) Describe(ch chan<- *prometheus.Desc) {
	for _, d := range []*prometheus.Desc{m.unbound, m.unstarted, m.provisioningUnbound, m.provisioningUnstarted, m.undecided} {
		ch <- d
	}
}

// Collect implements prometheus.Collector.
func (m *waitMetrics) Collect(ch chan<- prometheus.Metric) {
	if !m.cluster.leads() {
		return
	}
	now := m.cluster.host.Now()
	for _, t := range m.times.all() {
		waited := func(d *prometheus.Desc, then time.Time) { send(ch, gauge(d, since(then, now), t.name, t.namespace)) }
		waited(m.unstarted, t.created)
		if !t.placed.IsZero() {
			waited(m.provisioningUnstarted, t.placed)
		}
		if t.bound {
			continue
		}
		waited(m.unbound, t.created)
		if !t.placed.IsZero() {
			waited(m.provisioningUnbound, t.placed)
		}
		if !t.waits.IsZero() && !t.decided {
			waited(m.undecided, t.waits)
		}
	}
}
