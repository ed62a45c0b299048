package main

import (
	"bytes"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	karpv1 "millwright/api/karpenter/v1"
	"millwright/planner/ledger"
	pt "millwright/planner/plannertest"
	"millwright/store/audit/overview"
)

// For a node that the log does not mention: from the stream of a stopped system to the answer.
func TestWhyANodeStays(t *testing.T) {
	began := time.Now().Add(-time.Hour)
	claim := pt.Claim("a-claim", "a", "p", func(c *karpv1.NodeClaim) {
		c.Status.Conditions = []metav1.Condition{pt.True(karpv1.ConditionTypeInitialized, began)}
		c.Status.LastPodEventTime = metav1.NewTime(began)
	})
	node := pt.Node("a", pt.InPool("p"), func(n *corev1.Node) {
		n.Labels[corev1.LabelInstanceTypeStable], n.Labels[karpv1.CapacityTypeLabelKey] = "m5.xlarge", karpv1.CapacityTypeOnDemand
	})
	held := pt.PDB("default", "guard", 0, "app", "web")
	held.Status.Conditions = []metav1.Condition{{Type: "DisruptionAllowed", Status: "False", Reason: "InsufficientPods", LastTransitionTime: metav1.NewTime(pt.Start)}}
	dir := observed(t, append(pt.WithCatalogue(), pt.Pool("p"), claim, node, held, pt.Policy("first", `surge: {}`),
		pt.Pod("web", pt.On("a"), pt.Labels("app", "web"), pt.Requests("cpu", "3", "memory", "6Gi")))...)
	cmd := command()
	var out bytes.Buffer
	cmd.SetOut(&out)
	cmd.SetArgs([]string{"why", "node", "a", "--cluster-name", "test", "--data-dir", dir})
	if err := cmd.ExecuteContext(t.Context()); err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{"m5.xlarge on-demand in us-west-2a, NodePool p; without it $0.1920/h less", "1 pod(s) would need another place: cpu 3, memory 6Gi",
		"stays: PodDisruptionBudget default/guard: Pdb prevents pod evictions (PodDisruptionBudget=[default/guard]) (since 2026-03-02T10:00:00Z)" +
			`; surge of DisruptionPolicy "first" begins once a command has taken the node, and none takes it while the budget allows no eviction`,
		"cheapest alternative: m6g.xlarge spot at $0.0616/h; saves $0.1304/h"} {
		if !strings.Contains(out.String(), want) {
			t.Errorf("the answer lacks %q:\n%s", want, out.String())
		}
	}
}

// The pods that run in place of one that was moved have the same owner, and were created since.
func TestWhereAPodWent(t *testing.T) {
	c := pt.New()
	owned := pt.OwnedBy("apps/v1", "ReplicaSet", "web-7d9f")
	created := func(at time.Time) func(*corev1.Pod) {
		return func(p *corev1.Pod) { p.CreationTimestamp = metav1.NewTime(at) }
	}
	c.See(pt.Pod("web-7d9f-old", owned, pt.On("n1"), created(pt.Start.Add(-time.Hour))), pt.Pod("web-7d9f-new", owned, pt.On("n2"), created(pt.Start.Add(time.Minute))),
		pt.Pod("other-1", pt.OwnedBy("apps/v1", "ReplicaSet", "other"), pt.On("n2"), created(pt.Start.Add(time.Minute))))
	entries := []ledger.Entry{{Seq: 2, Time: pt.Start, Mode: ledger.ModeActive, Kind: ledger.KindCommandMovesStarted, Payload: &ledger.CommandStarted{
		Candidates: []ledger.Candidate{{Node: "n0", Pods: []ledger.PodRef{{Namespace: "default", Name: "web-7d9f-gone"}}}}}}}
	got := strings.Join(overview.Successors(c.World, "web-7d9f-gone", entries), "\n")
	if got != "now: pod default/web-7d9f-new, created 2026-03-02T10:01:00Z, on node n2" {
		t.Errorf("successors:\n%s", got)
	}
	if got := overview.Successors(c.World, "web-7d9f-old", entries); len(got) > 0 {
		t.Errorf("successors of a pod that no command moved: %v", got)
	}
}
