package provisioner

import (
	"strings"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil"

	"millwright/planner"
	"millwright/planner/plannertest"
	"millwright/services/internal/service"
)

// standing is a Host whose time stands still.
type standing struct {
	service.Host
	now      time.Time
	snapshot *planner.Snapshot
}

func (h *standing) Now() time.Time { return h.now }

func (h *standing) Snapshot(_ service.Freshness, fn func(*planner.Snapshot) error) error {
	return fn(h.snapshot)
}

// While a round is planned it is seen how long it takes, and afterwards no more.
func TestARoundThatIsBeingPlannedIsSeen(t *testing.T) {
	c := plannertest.New()
	host := &standing{now: plannertest.Start, snapshot: planner.NewSnapshot(c.World, c.Ledger, plannertest.Start)}
	cluster, registry := newClusterMetrics(host), prometheus.NewRegistry()
	cluster.stepped.Store(host.now.UnixNano())
	m := newWorkMetrics(cluster, newPodTimes(prometheus.NewRegistry()))
	registry.MustRegister(m)
	const name = "karpenter_scheduler_unfinished_work_seconds"
	m.begin(host.now)()
	end := m.begin(host.now)
	host.now = host.now.Add(3 * time.Second)
	want := `
# HELP karpenter_scheduler_unfinished_work_seconds How long the round that is being planned has taken so far, while there is one; scheduling_id is its number in this process.
# TYPE karpenter_scheduler_unfinished_work_seconds gauge
karpenter_scheduler_unfinished_work_seconds{controller="provisioner",scheduling_id="2"} 3
`
	if err := testutil.GatherAndCompare(registry, strings.NewReader(want), name); err != nil {
		t.Error(err)
	}
	end()
	if n, err := testutil.GatherAndCount(registry, name); n != 0 || err != nil {
		t.Errorf("%d series after the round: %v", n, err)
	}
}
