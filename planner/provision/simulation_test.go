package provision

import (
	"fmt"
	"runtime"
	"slices"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"pgregory.net/rapid"

	karpv1 "millwright/api/karpenter/v1"
	"millwright/planner/options"
	"millwright/tools/workload"
)

// drawRunning returns a cluster of nodes in a NodePool, with pods that run on them.
func drawRunning(t *rapid.T) (c *cluster, nodes []string) {
	s := &scene{}
	pool := newPool("default")
	if rapid.Bool().Draw(t, "limited") {
		pool.Spec.Limits = karpv1.Limits(amounts(map[string]string{"cpu": fmt.Sprint(rapid.IntRange(0, 60).Draw(t, "limit")), "nodes": fmt.Sprint(rapid.IntRange(1, 9).Draw(t, "nodes"))}))
	}
	s.pools = append(s.pools, pool)
	for i := range rapid.IntRange(2, 7).Draw(t, "nodes") {
		labels := map[string]string{corev1.LabelTopologyZone: rapid.SampledFrom([]string{"zone-a", "zone-b", "zone-c", "zone-x"}).Draw(t, "zone"), karpv1.NodePoolLabelKey: "default"}
		n := newNode(fmt.Sprintf("node-%d", i), map[string]string{"cpu": rapid.SampledFrom([]string{"2", "4", "8"}).Draw(t, "cpu"), "memory": "64Gi", "pods": "20"}, labels)
		if rapid.IntRange(0, 3).Draw(t, "tainted") == 0 {
			n.Spec.Taints = []corev1.Taint{{Key: "one", Effect: corev1.TaintEffectPreferNoSchedule}}
		}
		s.nodes = append(s.nodes, n)
		nodes = append(nodes, n.Name)
	}
	var apps []app
	for i := range rapid.IntRange(1, 4).Draw(t, "apps") {
		a := drawApp(t, i, apps)
		apps = append(apps, a)
		for n := range a.count {
			p := a.pod(n, rapid.SampledFrom([]string{"100m", "1", "3"}).Draw(t, "cpu"))
			if rapid.IntRange(0, 9).Draw(t, "port") == 0 {
				p.Spec.Containers[0].Ports = []corev1.ContainerPort{{HostPort: 80, ContainerPort: 80}}
			}
			if rapid.IntRange(0, 5).Draw(t, "stays") == 0 {
				p.Annotations = map[string]string{karpv1.DoNotDisruptAnnotationKey: "true"}
			}
			s.bound = append(s.bound, bound(p, rapid.SampledFrom(nodes).Draw(t, "on")))
		}
	}
	c = s.cluster(nil)
	c.options.Revision = rapid.IntRange(0, options.PresentRevision).Draw(t, "revision")
	return c, nodes
}

// text of an answer, with the content of its claims.
func (sim *Simulation) text(t fails, a Answer) string {
	var b strings.Builder
	for _, m := range a.Moves {
		fmt.Fprintf(&b, "%s: %s%s#%d\n", m.Pod.Name, m.Node, m.Claim, m.NewClaim)
	}
	for _, id := range a.Claims {
		p, err := sim.Claim(id)
		if err != nil {
			t.Fatalf("claim %d: %v", id, err)
		}
		fmt.Fprintf(&b, "#%d %s\n", id, encode(p))
	}
	fmt.Fprintf(&b, "%d unplaced, %d µ$/h, %v\n", a.Unplaced, a.PricePerHour, a.Uninitialized)
	return b.String()
}

// fromScratch answers a question without a Simulation.
func fromScratch(c *cluster, without []string) string {
	r := Simulate(c.snapshot(), Scenario{Without: without})
	var b strings.Builder
	for _, v := range r.Verdicts {
		fmt.Fprintf(&b, "%s: %s%s#%d\n", v.Pod.Name, v.Node, v.Claim, v.NewClaim)
	}
	for i, p := range r.Claims {
		fmt.Fprintf(&b, "#%d %s\n", i+1, encode(p))
	}
	fmt.Fprintf(&b, "%d unplaced, %d µ$/h, %v\n", r.Refused, r.PricePerHour, r.Uninitialized)
	return b.String()
}

// TestEachAnswerIsAsFromScratch: whatever was asked and taken back before.
func TestEachAnswerIsAsFromScratch(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		c, nodes := drawRunning(t)
		sim := NewSimulation(c.snapshot(), Settings{})
		for range rapid.IntRange(1, 6).Draw(t, "questions") {
			without := rapid.SliceOfNDistinct(rapid.SampledFrom(nodes), 1, 3, func(n string) string { return n }).Draw(t, "without")
			got := sim.text(t, sim.Begin(without...))
			sim.Revert()
			if want := fromScratch(c, without); got != want {
				t.Fatalf("without %v:\n%s\nfrom scratch:\n%s", without, got, want)
			}
		}
	})
}

// TestRevertedQuestionsLeaveNoTrace: the answers after what was committed are the same whether or not others
// were asked and taken back.
func TestRevertedQuestionsLeaveNoTrace(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		c, nodes := drawRunning(t)
		for i := range rapid.IntRange(0, 3).Draw(t, "pending") {
			c.put(newPod(fmt.Sprint("pending-", i), map[string]string{"cpu": "3"}))
		}
		sim, plain := NewSimulation(c.snapshot(), Settings{}), NewSimulation(c.snapshot(), Settings{})
		for range rapid.IntRange(1, 8).Draw(t, "questions") {
			q := Question{
				Without:   rapid.SliceOfNDistinct(rapid.SampledFrom(nodes), 1, 2, func(n string) string { return n }).Draw(t, "without"),
				ClaimsMax: rapid.IntRange(-1, 1).Draw(t, "claims"), Hasty: rapid.Bool().Draw(t, "hasty"),
			}
			got := sim.text(t, sim.Ask(q))
			if rapid.Bool().Draw(t, "revert") {
				sim.Revert()
				continue
			}
			sim.Commit()
			want := plain.text(t, plain.Ask(q))
			plain.Commit()
			if got != want {
				t.Fatalf("%+v:\n%s\nwithout the questions taken back:\n%s", q, got, want)
			}
		}
	})
}

// settled is a cluster of full and half-empty nodes whose pods have spread and affinity on a third of them.
func settled(nodes int) *cluster {
	c := newCluster()
	c.options.InstanceTypesMax = 600
	types := workload.RealTypes(700)
	c.putCatalog(types.Types, types.Prices)
	for i := range 20 {
		p := newPool(fmt.Sprintf("pool-%02d", i))
		p.Spec.Template.Labels = map[string]string{"pool": p.Name}
		c.put(p)
	}
	r := lcg(7)
	zones := []string{"us-west-2a", "us-west-2b", "us-west-2c"}
	for i := range nodes {
		name, pool := fmt.Sprintf("node-%05d", i), fmt.Sprintf("pool-%02d", i%20)
		c.put(newNode(name, map[string]string{"cpu": "16", "memory": "64Gi", "pods": "110"}, map[string]string{
			corev1.LabelTopologyZone: zones[i%3], karpv1.NodePoolLabelKey: pool, "pool": pool, karpv1.NodeInitializedLabelKey: "true", karpv1.NodeRegisteredLabelKey: "true"}))
		for j := range 30 {
			app := r.next(300)
			p := newPod(fmt.Sprintf("p-%05d-%02d", i, j), map[string]string{"cpu": []string{"100m", "250m", "500m", "700m"}[app%4], "memory": []string{"256Mi", "1Gi", "2Gi"}[app%3]})
			p.Labels = map[string]string{"app": fmt.Sprint("app-", app)}
			self := &metav1.LabelSelector{MatchLabels: p.Labels}
			switch app % 9 {
			case 0:
				p.Spec.TopologySpreadConstraints = []corev1.TopologySpreadConstraint{{MaxSkew: 1 + int32(nodes), TopologyKey: corev1.LabelTopologyZone, WhenUnsatisfiable: corev1.DoNotSchedule, LabelSelector: self}}
			case 1:
				p.Spec.Affinity = &corev1.Affinity{PodAntiAffinity: &corev1.PodAntiAffinity{RequiredDuringSchedulingIgnoredDuringExecution: []corev1.PodAffinityTerm{{TopologyKey: corev1.LabelHostname, LabelSelector: self}}}}
			case 2:
				p.Spec.Affinity = &corev1.Affinity{PodAffinity: &corev1.PodAffinity{RequiredDuringSchedulingIgnoredDuringExecution: []corev1.PodAffinityTerm{{TopologyKey: corev1.LabelTopologyZone, LabelSelector: self}}}}
			}
			c.put(bound(p, name))
		}
	}
	return c
}

// BenchmarkSimulation asks of each node what becomes of its pods: 30 a node of 300 workloads, 20 NodePools,
// 700 types.
func BenchmarkSimulation(b *testing.B) {
	for _, nodes := range []int{1000, 5000} {
		b.Run(fmt.Sprint(nodes), func(b *testing.B) {
			c := settled(nodes)
			s := c.snapshot()
			s.StateNodes()
			runtime.GC()
			b.ReportAllocs()
			unplaced, claims := 0, 0
			for b.Loop() {
				sim := NewSimulation(s, Settings{})
				unplaced, claims = 0, 0
				for i := range nodes {
					a := sim.Begin(fmt.Sprintf("node-%05d", i))
					unplaced, claims = unplaced+a.Unplaced, claims+len(a.Claims)
					sim.Revert()
				}
			}
			b.ReportMetric(float64(b.Elapsed().Microseconds())/float64(b.N*nodes), "µs/candidate")
			b.ReportMetric(float64(unplaced), "unplaced")
			b.ReportMetric(float64(claims), "claims")
		})
		b.Run(fmt.Sprint(nodes, "/scratch"), func(b *testing.B) {
			s := settled(nodes).snapshot()
			s.StateNodes()
			for b.Loop() {
				Simulate(s, Scenario{Without: []string{"node-00000"}})
			}
		})
	}
}

// TestASimulationByHand is the example of Simulation.
func TestASimulationByHand(t *testing.T) {
	c := newCluster()
	c.catalogue()
	c.put(newPool("default"))
	for i, n := range []string{"a", "b", "c"} {
		c.put(newNode(n, map[string]string{"cpu": "4", "memory": "8Gi", "pods": "10"}, nil))
		for j := range []int{1, 1, 1}[i] {
			c.put(bound(newPod(fmt.Sprint(n, j), map[string]string{"cpu": "1"}), n))
		}
	}
	sim := NewSimulation(c.snapshot(), Settings{})
	places := func(a Answer) (list []string) {
		for _, m := range a.Moves {
			list = append(list, m.Pod.Name+" to "+m.Node)
		}
		return list
	}
	want := func(a Answer, moves ...string) {
		t.Helper()
		if got := places(a); !slices.Equal(got, moves) {
			t.Errorf("moves %v, want %v", got, moves)
		}
	}
	want(sim.Begin("a"), "a0 to b")
	sim.Commit()
	want(sim.Begin("b"), "a0 to c", "b0 to c")
	sim.Revert()
	want(sim.Begin("c"), "c0 to b")
	sim.Commit()
	last := sim.Begin("b")
	if len(last.Claims) != 1 || last.Unplaced != 0 || len(last.Moves) != 3 {
		t.Errorf("the last node: %+v", last)
	}
	sim.Revert()
	if none := sim.Ask(Question{Without: []string{"b"}}); none.Unplaced != 3 || len(none.Claims) != 0 {
		t.Errorf("no claim may be opened: %+v", none)
	}
	sim.Revert()
}
