package plannertest

import (
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"
	"pgregory.net/rapid"

	karpv1 "millwright/api/karpenter/v1"
)

// Scene draws a small cluster in which planners find something to do: one or two pools with budgets and
// limits, nodes of theirs, pods that run, wait, or end, and time that has passed.
func Scene(t *rapid.T) *Cluster {
	pools := []string{"blue", "green"}[:rapid.IntRange(1, 2).Draw(t, "pools")]
	objects := WithCatalogue()
	for _, p := range pools {
		objects = append(objects, drawPool(t, p))
	}
	c := New(objects...)
	nodes := []string{}
	for i := range rapid.IntRange(0, 4).Draw(t, "nodes") {
		name := fmt.Sprintf("node-%d", i)
		nodes = append(nodes, name)
		c.AddNode(name, rapid.SampledFrom(pools).Draw(t, "pool of node"))
	}
	c.Advance(time.Duration(rapid.IntRange(0, 120).Draw(t, "minutes")) * time.Minute)
	for i := range rapid.IntRange(0, 8).Draw(t, "pods") {
		c.See(drawPod(t, fmt.Sprintf("pod-%d", i), nodes))
	}
	c.Advance(time.Second)
	return c
}

func drawPool(t *rapid.T, name string) *karpv1.NodePool {
	after := rapid.SampledFrom([]string{"0s", "30m", karpv1.Never}).Draw(t, "consolidateAfter")
	budget := rapid.SampledFrom([]string{"0", "1", "50%", "100%"}).Draw(t, "budget")
	return Pool(name, ConsolidateAfter(after), Budgets(karpv1.Budget{Nodes: budget}), func(p *karpv1.NodePool) {
		if rapid.Bool().Draw(t, "limited") {
			p.Spec.Limits = karpv1.Limits(Resources("cpu", rapid.SampledFrom([]string{"1", "8", "64"}).Draw(t, "limit")))
		}
		if rapid.Bool().Draw(t, "tainted") {
			p.Spec.Template.Spec.Taints = []corev1.Taint{{Key: "team", Value: name, Effect: corev1.TaintEffectNoSchedule}}
		}
	})
}

func drawPod(t *rapid.T, name string, nodes []string) *corev1.Pod {
	p := Pod(name, Requests("cpu", rapid.SampledFrom([]string{"100m", "1", "3", "7", "90"}).Draw(t, "cpu"), "memory", rapid.SampledFrom([]string{"128Mi", "4Gi"}).Draw(t, "memory")))
	if rapid.Bool().Draw(t, "tolerates") {
		Toleration("team")(p)
	}
	if rapid.IntRange(0, 3).Draw(t, "selects") == 0 {
		p.Spec.NodeSelector = Map(corev1.LabelArchStable, rapid.SampledFrom([]string{"amd64", "arm64", "riscv"}).Draw(t, "arch"))
	}
	if len(nodes) > 0 && rapid.Bool().Draw(t, "runs") {
		On(rapid.SampledFrom(nodes).Draw(t, "on"))(p)
		return p
	}
	Unschedulable()(p)
	return p
}
