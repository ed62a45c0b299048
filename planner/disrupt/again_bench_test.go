package disrupt_test

import (
	"fmt"
	"syscall"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"

	"millwright/planner"
	"millwright/planner/disrupt"
	pt "millwright/planner/plannertest"
	"millwright/planner/provision"
)

// BenchmarkAgain is one more pass after a change of a settled cluster, with what was remembered of the pass
// before: full-ms and again-ms are CPU time, anew and reused count simulations.
func BenchmarkAgain(b *testing.B) {
	changes := []struct {
		name   string
		change func(c *pt.Cluster, i int)
	}{
		{"nothing", func(*pt.Cluster, int) {}},
		{"pod-added", func(c *pt.Cluster, i int) {
			c.See(pt.Pod(fmt.Sprint("one-more-", i), pt.On(nodeOf(c, i)), pt.Requests("cpu", "10m", "memory", "1Mi")))
		}},
		{"pod-removed", func(c *pt.Cluster, i int) { removePod(c, nodeOf(c, i)) }},
		{"node-added", func(c *pt.Cluster, i int) { c.See(pt.Node(fmt.Sprint("another-", i))) }},
		{"pods-1%", func(c *pt.Cluster, i int) {
			for j := range len(c.World.Nodes()) * benchPodsPerNode / 100 {
				removePod(c, nodeOf(c, i+j))
			}
		}},
	}
	for _, x := range []struct{ nodes, pools int }{{1000, 20}, {5000, 40}} {
		for _, change := range changes {
			b.Run(fmt.Sprintf("%d/%s", x.nodes, change.name), func(b *testing.B) {
				c := benchCluster(x.nodes, x.pools)
				m := &provision.Memory{}
				began := userTime()
				plan(c, m)
				full := userTime() - began
				asked, reused := m.Counts()
				var again time.Duration
				for i := 0; b.Loop(); i++ {
					change.change(c, i)
					c.Advance(time.Minute)
					began := userTime()
					plan(c, m)
					again += userTime() - began
				}
				b.ReportMetric(float64(full.Milliseconds()), "full-ms")
				b.ReportMetric(float64(again.Milliseconds())/float64(b.N), "again-ms")
				all, found := m.Counts()
				b.ReportMetric(float64(all-asked-(found-reused))/float64(b.N), "anew")
				b.ReportMetric(float64(found-reused)/float64(b.N), "reused")
			})
		}
	}
}

// nodeOf is some node, another for each number.
func nodeOf(c *pt.Cluster, i int) string {
	nodes := c.World.Nodes()
	return nodes[(i*37+len(nodes)/2)%len(nodes)].Object.Name
}

func removePod(c *pt.Cluster, node string) {
	for _, p := range c.World.PodsOn(node) {
		if planner.IsReschedulable(p) {
			gone := &corev1.Pod{}
			gone.Namespace, gone.Name, gone.UID = p.Namespace, p.Name, p.UID
			c.Gone(gone)
			return
		}
	}
}

// plan is a pass over versions of World and Ledger, as services have them.
func plan(c *pt.Cluster, m *provision.Memory) (*planner.Decision, disrupt.Report) {
	s := planner.NewSnapshot(c.World.Version(), c.Ledger.Version(), c.Clock)
	pass := disrupt.NewPass(s).Remembering(m)
	m.Begin(s)
	defer m.End()
	for {
		if name, list := pass.Next(); len(list) > 0 {
			return list[0], pass.Report()
		} else if name == "" {
			return nil, pass.Report()
		}
	}
}

func userTime() time.Duration {
	var u syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &u); err != nil {
		panic(err)
	}
	return time.Duration(u.Utime.Nano())
}
