package process

import (
	"strings"
	"testing"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promauto"
	"github.com/rs/zerolog"
)

// Both spellings are served with the same labels and values, and only if they are asked for.
func TestFormerNamesAreServedIfAskedFor(t *testing.T) {
	r := prometheus.NewRegistry()
	f := promauto.With(r)
	f.NewCounterVec(prometheus.CounterOpts{Name: "karpenter_nodes_created_total", Help: "Nodes that joined."}, []string{"nodepool"}).WithLabelValues("p").Add(3)
	f.NewHistogram(prometheus.HistogramOpts{Name: "karpenter_scheduler_scheduling_duration_seconds", Help: "Duration.", Buckets: []float64{1}}).Observe(0.5)
	f.NewGauge(prometheus.GaugeOpts{Name: "karpenter_cluster_state_synced", Help: "Never renamed."}).Set(1)
	for _, asked := range []bool{false, true} {
		s := Settings{HealthProbePort: freePort(t), MetricsPort: freePort(t), MetricsCompat: asked}
		v, err := listen(s, r, &checks{}, &checks{}, nil, zerolog.Nop())
		if err != nil {
			t.Fatal(err)
		}
		_, page := get(t, s.MetricsPort, "/metrics")
		v.shutdown()
		for line, always := range map[string]bool{
			`karpenter_nodes_created_total{nodepool="p"} 3`: true, `karpenter_nodes_created{nodepool="p"} 3`: false, "karpenter_cluster_state_synced 1": true,
			`karpenter_scheduler_scheduling_duration_seconds_bucket{le="1"} 1`: true, `karpenter_provisioner_scheduling_simulation_duration_seconds_bucket{le="1"} 1`: false,
		} {
			if got := strings.Contains(page, "\n"+line+"\n"); got != (always || asked) {
				t.Errorf("asked for: %t, %s: %t in\n%s", asked, line, got, page)
			}
		}
	}
}

// A metric that another one was called before would be there twice.
func TestAFormerNameThatIsTakenIsLeftAlone(t *testing.T) {
	r := prometheus.NewRegistry()
	for _, name := range []string{"karpenter_nodepools_limit", "karpenter_nodepool_limit"} {
		promauto.With(r).NewGauge(prometheus.GaugeOpts{Name: name, Help: "A limit."})
	}
	families, err := withFormerNames(r).Gather()
	if err != nil || len(families) != 2 {
		t.Errorf("%v, %v", families, err)
	}
}
