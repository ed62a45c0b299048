package e2e

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"millwright/tools/stack"
)

// consolidating is the default NodePool, set to consolidate nodes with pods too.
func consolidating(pool string) string {
	return strings.Replace(pool, "consolidationPolicy: WhenEmpty", "consolidationPolicy: WhenEmptyOrUnderutilized", 1)
}

// nodes returns the Nodes of the default NodePool by name.
func (e *env) poolNodes(pool string) []corev1.Node {
	list, err := e.kube.CoreV1().Nodes().List(e.Context(), metav1.ListOptions{LabelSelector: "karpenter.sh/nodepool=" + pool})
	if err != nil {
		e.Fatal(err)
	}
	return list.Items
}

// cpu returns the sum of a NodePool's nodes, in whole CPUs.
func (e *env) cpuOf(pool string) (sum int64) {
	for _, n := range e.poolNodes(pool) {
		sum += n.Status.Capacity.Cpu().Value()
	}
	return sum
}

// Pods left on too many and too large nodes are moved together, to existing nodes or to a smaller new one;
// then a change of the NodePool replaces the remaining nodes. All pods keep running somewhere throughout, and
// the log says why each node went. Prometheus scrapes it: one process, or each service by itself, where
// consolidation waits first whether the saving lasts.
func TestNodesAreConsolidatedAndRolled(t *testing.T) {
	t.Parallel()
	for name, five := range map[string]bool{"in one process": false, "in five processes": true} {
		t.Run(name, func(t *testing.T) { consolidatedAndRolled(t, five) })
	}
}

func consolidatedAndRolled(t *testing.T, patient bool) {
	e := start(t, func(o *stack.Options) {
		o.FiveProcesses = patient
		often := []string{"--replay-check-interval", "2s"}
		o.ServiceArgs = map[string][]string{"all": often, "lifecycle": often, "disruptor": {"--consolidation-patience", "0.0005"}}
	})
	observed := e.observe()
	e.apply(defaultClass)
	pool := strings.Replace(consolidating(defaultPool), "  disruption:", "  limits: {cpu: 1000}\n  disruption:", 1)
	e.apply(pool)
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
	events, err := e.kube.CoreV1().Events(metav1.NamespaceDefault).List(e.Context(), metav1.ListOptions{FieldSelector: "reason=Unconsolidatable"})
	if err != nil {
		t.Fatal(err)
	}
	waited := slices.ContainsFunc(events.Items, func(x corev1.Event) bool { return strings.Contains(x.Message, "waits a while whether that lasts") })
	if waited != patient {
		t.Errorf("an event says that consolidation waits: %t, want %t", waited, patient)
	}
	old := map[string]bool{}
	for _, n := range e.poolNodes("default") {
		old[n.Name] = true
	}
	e.apply(strings.Replace(pool, "    spec:\n      requirements:", "    metadata: {labels: {team: blue}}\n    spec:\n      requirements:", 1))
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
	observed()
	e.takenAgain()
	e.sound()
}

// takenAgain demands that the process that leads lifecycle took decisions again, and that each came out as
// it is recorded.
func (e *env) takenAgain() {
	e.Helper()
	counts := map[string]float64{}
	for name := range e.stack.MetricsAddresses() {
		for _, outcome := range []string{"same", "diverged", "failed", "no_room"} {
			counts[outcome] += max(0, e.metric(name, `millwright_replay_checks_total{outcome="`+outcome+`"}`))
		}
	}
	if counts["same"] == 0 || counts["diverged"] > 0 || counts["failed"] > 0 || counts["no_room"] > 0 {
		e.Errorf("decisions taken again: %v", counts)
	}
}

// A change of the NodePool replaces all its nodes, several at a time within its budget and never more, each
// by a command of its own; then the log is replayed. Nodes that are being deleted are not counted here, since
// a node whose instance terminates uses up no budget.
func TestDriftedNodesGoAsManyAtATimeAsTheirBudgetAllows(t *testing.T) {
	const nodes, most = 6, 3
	e := start(t, nil)
	e.apply(defaultClass)
	pool := strings.Replace(defaultPool, `nodes: "100%"`, fmt.Sprintf(`nodes: "%d"`, most), 1)
	e.apply(pool)
	e.deploy("web", nodes, "500m", "512Mi", func(p *corev1.PodTemplateSpec) {
		p.Spec.Affinity = &corev1.Affinity{PodAntiAffinity: &corev1.PodAntiAffinity{RequiredDuringSchedulingIgnoredDuringExecution: []corev1.PodAffinityTerm{
			{TopologyKey: corev1.LabelHostname, LabelSelector: &metav1.LabelSelector{MatchLabels: p.Labels}}}}}
	})
	e.running("web", nodes)
	e.apply(strings.Replace(pool, "    spec:\n      requirements:", "    metadata: {labels: {team: blue}}\n    spec:\n      requirements:", 1))
	together := 0
	e.eventually("all nodes as the NodePool says now", func() string {
		going, old := 0, 0
		for _, n := range e.poolNodes("default") {
			if n.Labels["team"] == "blue" {
				continue
			}
			old++
			if n.DeletionTimestamp == nil && slices.ContainsFunc(n.Spec.Taints, func(t corev1.Taint) bool { return t.Key == "karpenter.sh/disrupted" }) {
				going++
			}
		}
		if together = max(together, going); going > most {
			t.Errorf("%d nodes go at a time", going)
		}
		if old > 0 {
			return fmt.Sprintf("%d nodes are of before, %d of them go", old, going)
		}
		return ""
	})
	if together < 2 {
		t.Errorf("at most %d nodes went at a time, the budget allows %d", together, most)
	}
	e.running("web", nodes)
	log, _ := e.millctl("log", "--kind", "CommandMovesStarted")
	if n := strings.Count(log, "Drifted"); n < nodes {
		t.Errorf("%d commands for %d drifted nodes:\n%s", n, nodes, log)
	}
	e.sound()
}
