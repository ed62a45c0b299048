package fold

import (
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promauto"

	"millwright/events"
	"millwright/planner/ledger"
	"millwright/planner/world"
)

const namespace = "millwright"

type stateMetrics struct {
	streamLag, logLag prometheus.Gauge
	usage             *prometheus.GaugeVec
	explanationsOut   prometheus.Gauge
	refused, drifts   *prometheus.CounterVec
}

func newStateMetrics(r prometheus.Registerer, s *State) *stateMetrics {
	f := promauto.With(r)
	f.NewGaugeFunc(prometheus.GaugeOpts{Namespace: "karpenter", Name: "cluster_state_synced",
		Help: "Whether the World has folded a whole resync and misses no message since (1) or not (0)."}, s.syncedGauge)
	f.NewGaugeFunc(prometheus.GaugeOpts{Namespace: "karpenter", Name: "cluster_state_unsynced_time_seconds",
		Help: "How long karpenter_cluster_state_synced has been 0; 0 while it is 1."}, s.unsyncedGauge)
	f.NewGaugeFunc(prometheus.GaugeOpts{Namespace: "karpenter", Name: "cluster_state_node_count",
		Help: "Nodes in the World."}, s.nodesGauge)
	f.NewGaugeFunc(prometheus.GaugeOpts{Namespace: namespace, Name: "world_age_seconds",
		Help: "Time since the last heartbeat of the watcher that is folded."}, s.ageGauge)
	f.NewGaugeFunc(prometheus.GaugeOpts{Namespace: namespace, Name: "ledger_seq",
		Help: "Sequence of the last record that is folded."}, func() float64 { return float64(s.ledgerSeq()) })
	for _, level := range ledger.Stops[1:] {
		f.NewGaugeFunc(prometheus.GaugeOpts{Namespace: namespace, Name: "control_stopped", ConstLabels: prometheus.Labels{"level": string(level)},
			Help: "Whether operators have stopped the services at this level (1) or not (0), as this process acts on it."}, func() float64 { return is(s.Stop() == level) })
	}
	f.NewGaugeFunc(prometheus.GaugeOpts{Namespace: namespace, Name: "control_unconfirmed",
		Help: "Whether it has not been known for a second how far operators have stopped the services (1): then they act as under voluntary."},
		func() float64 { return is(s.control.isUnconfirmed(s.clock())) })
	for name, since := range map[string]func() time.Time{"log": s.LogUnreachable, "bus": s.BusUnreachable} {
		f.NewGaugeFunc(prometheus.GaugeOpts{Namespace: namespace, Name: name + "_unreachable_since_timestamp_seconds",
			Help: "Since when " + map[string]string{"log": "etcd", "bus": "NATS"}[name] + " has not answered this process, Unix time; 0 while it does, and for the first 5 s."}, func() float64 { return unix(since()) })
	}
	m := &stateMetrics{
		usage: f.NewGaugeVec(prometheus.GaugeOpts{Namespace: namespace, Name: "log_database_bytes",
			Help: "Database of the log: quota, file, used."}, []string{"what"}),
		explanationsOut: f.NewGauge(prometheus.GaugeOpts{Namespace: namespace, Name: "log_explanations_omitted",
			Help: "Whether explanations stay out of new records (1), because the database is nearly full, or not (0)."}),
		streamLag: f.NewGauge(prometheus.GaugeOpts{Namespace: namespace, Name: "world_fold_lag_seconds",
			Help: "Age of the last observation when it was folded."}),
		logLag: f.NewGauge(prometheus.GaugeOpts{Namespace: namespace, Name: "ledger_fold_lag_seconds",
			Help: "Age of the last record when it was folded."}),
		drifts: f.NewCounterVec(prometheus.CounterOpts{Namespace: namespace, Name: "world_drifts_total",
			Help: "Times the World did not hold what the watcher had published, by kind; it was folded again."}, []string{"kind"}),
		refused: f.NewCounterVec(prometheus.CounterOpts{Namespace: namespace, Name: "observations_refused_total",
			Help: "Messages of the stream that could not be folded, by reason."}, []string{"reason"}),
	}
	// There before the first of each, whose increase would not be seen otherwise.
	for _, reason := range []string{reasonUndecodable, reasonBlobMissing, reasonUnknownKind} {
		m.refused.WithLabelValues(reason)
	}
	for kind := range world.New().Sums() {
		m.drifts.WithLabelValues(kind)
	}
	m.drifts.WithLabelValues(events.KindCatalog.String())
	return m
}

func (m *stateMetrics) countDrifts(kinds []string) {
	for _, kind := range kinds {
		m.drifts.WithLabelValues(kind).Inc()
	}
}

func unix(t time.Time) float64 {
	if t.IsZero() {
		return 0
	}
	return float64(t.UnixMilli()) / 1000
}

func is(b bool) float64 {
	if b {
		return 1
	}
	return 0
}

func (s *State) syncedGauge() float64 {
	w := s.world.version()
	return is(w.Synced() && !w.Torn())
}

func (s *State) unsyncedGauge() float64 {
	since := s.unsynced.Load()
	if since == 0 {
		return 0
	}
	return max(0, s.clock().Sub(time.Unix(0, since)).Seconds())
}

func (s *State) nodesGauge() float64 { return float64(len(s.world.version().Nodes())) }

func (s *State) ageGauge() float64 {
	asOf := s.world.version().AsOf()
	if asOf.IsZero() {
		return 0
	}
	return max(0, s.clock().Sub(asOf).Seconds())
}

// RegisterMetrics registers the metrics of the package with r, as a running process does; docs/metrics.md is
// made of them.
func RegisterMetrics(r prometheus.Registerer) { newStateMetrics(r, nil) }
