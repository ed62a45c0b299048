package e2e

import (
	"fmt"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// consolidating is the default NodePool, with nodes that hold pods to be consolidated too.
func consolidating(pool string) string {
	return strings.Replace(pool, "consolidationPolicy: WhenEmpty", "consolidationPolicy: WhenEmptyOrUnderutilized", 1)
}

// nodes are the Nodes of the default NodePool by name.
func (e *env) poolNodes(pool string) []corev1.Node {
	list, err := e.kube.CoreV1().Nodes().List(e.Context(), metav1.ListOptions{LabelSelector: "karpenter.sh/nodepool=" + pool})
	if err != nil {
		e.Fatal(err)
	}
	return list.Items
}

// cpu is what the nodes of a NodePool have in all, in whole CPUs.
func (e *env) cpuOf(pool string) (sum int64) {
	for _, n := range e.poolNodes(pool) {
		sum += n.Status.Capacity.Cpu().Value()
	}
	return sum
}

// Pods that are left on too many and too big nodes are gathered, on nodes that are there or on a smaller new one; then a changed NodePool
// rolls what is left. All the while the pods run somewhere, and the log says why.
func TestNodesAreConsolidatedAndRolled(t *testing.T) {
	e := start(t, nil)
	e.apply(defaultClass)
	e.apply(consolidating(defaultPool))
	e.deploy("web", 12, "1500m", "2Gi", func(p *corev1.PodTemplateSpec) {
		p.Spec.NodeSelector = map[string]string{"karpenter.sh/nodepool": "default"}
	})
	e.running("web", 12)
	before := e.cpuOf("default")
	e.scale("web", 3)
	e.eventually("fewer CPUs", func() string {
		have, used := e.cpuOf("default"), int64(3*1500/1000)
		if have > 3*used {
			return fmt.Sprintf("%d CPUs in %d nodes, there were %d", have, len(e.poolNodes("default")), before)
		}
		return ""
	})
	e.running("web", 3)
	log, _ := e.millctl("log")
	if !strings.Contains(log, "Underutilized") {
		t.Errorf("no command for Underutilized in the log:\n%s", log)
	}
	old := map[string]bool{}
	for _, n := range e.poolNodes("default") {
		old[n.Name] = true
	}
	e.apply(strings.Replace(consolidating(defaultPool), "    spec:\n      requirements:", "    metadata: {labels: {team: blue}}\n    spec:\n      requirements:", 1))
	e.eventually("all nodes as the NodePool says now", func() string {
		for _, n := range e.poolNodes("default") {
			if old[n.Name] || n.Labels["team"] != "blue" {
				return fmt.Sprintf("node %s is of before", n.Name)
			}
		}
		if len(e.poolNodes("default")) == 0 {
			return "no node"
		}
		return ""
	})
	e.running("web", 3)
	e.sound()
}
