package disrupt_test

import (
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"

	karpv1 "millwright/api/karpenter/v1"
	"millwright/planner"
	"millwright/planner/disrupt"
	"millwright/planner/ledger"
	pt "millwright/planner/plannertest"
)

// buffered is busy with a buffer b of so many pods of 3 CPU, one to a node of 4, and the gate on.
func buffered(pool *karpv1.NodePool, nodes []string, replicas int32, objects ...any) *pt.Cluster {
	template := pt.PodTemplate("b", "cpu", "3", "memory", "1Gi")
	template.Template.Spec.NodeSelector = map[string]string{corev1.LabelInstanceTypeStable: "m5.xlarge", karpv1.CapacityTypeLabelKey: karpv1.CapacityTypeOnDemand} // as the nodes are
	c := busy(pool, nodes, append([]any{template, pt.Buffer("b", replicas)}, objects...)...)
	gate(c)
	return c
}

func gate(c *pt.Cluster) {
	o := planner.DefaultOptions()
	o.CapacityBuffers = true
	c.Options(o)
}

func onlyEmpty() *karpv1.NodePool { return pt.Pool("p", policy(karpv1.ConsolidationPolicyWhenEmpty)) }

// The rules: scheduling §15, disruption §2.
func TestBuffersAreProtectedInEveryMethod(t *testing.T) {
	for name, tc := range map[string]struct {
		pool     *karpv1.NodePool
		nodes    []string
		replicas int32
		objects  []any
		drifted  string
		want     string
		blocked  string // message about node a
	}{
		"an empty node with the only room for the buffer": {nodes: []string{"a"}, replicas: 1, blocked: `Node "a" has buffer pods`},
		"the same in a NodePool for empty nodes":          {pool: onlyEmpty(), nodes: []string{"a"}, replicas: 1, blocked: `Node "a" has buffer pods`},
		"two empty nodes, room on either":                 {nodes: []string{"a", "b"}, replicas: 1, want: "emptiness b"},
		"both hold some":                                  {nodes: []string{"a", "b"}, replicas: 2, blocked: `Node "a" has buffer pods`},
		"two in a NodePool for empty nodes, and one has room for both": {pool: onlyEmpty(), nodes: []string{"a", "b", "c"}, replicas: 2,
			want: "emptiness c"},
		"pods that could move, if they took the buffer's room": {nodes: []string{"a", "b"}, replicas: 1,
			objects: []any{sized("x", "a", "1", "1Gi", pt.Selector(corev1.LabelInstanceTypeStable, "m5.xlarge", karpv1.CapacityTypeLabelKey, karpv1.CapacityTypeOnDemand))}},
		"a drifted node with nothing but room gets a replacement": {nodes: []string{"a"}, replicas: 1, drifted: "a",
			want: "drift a; capacity-buffer-b-0 to a new m5.xlarge"},
		"a drifted node whose room is elsewhere too": {nodes: []string{"a", "b"}, replicas: 1, drifted: "a", objects: []any{pt.Pool("p", pt.ConsolidateAfter("Never"))},
			want: "drift a"},
		"a node that is too big for the buffer alone": {nodes: []string{"a"}, replicas: 1,
			objects: []any{pt.PodTemplate("b", "cpu", "1", "memory", "1Gi")}, want: "single a; capacity-buffer-b-0 to a new t3.small"},
		"the buffer does not fit anywhere anyway": {nodes: []string{"a"}, replicas: 1, objects: []any{pt.PodTemplate("b", "cpu", "900", "memory", "1Gi")},
			want: "emptiness a"},
	} {
		t.Run(name, func(t *testing.T) {
			if tc.pool == nil {
				tc.pool = pt.Pool("p")
			}
			c := buffered(tc.pool, tc.nodes, tc.replicas, tc.objects...)
			if tc.drifted != "" {
				c.See(drifted(tc.drifted, 0))
			}
			d, r := disrupt.Plan(c.Snapshot())
			want(t, "decided", told(d), tc.want)
			if d != nil {
				want(t, "evictions", d.Payload.(*ledger.CommandStarted).Evictions, 0)
			}
			if tc.blocked != "" {
				want(t, "blocked", r.Nodes[0].Blocked.Message, tc.blocked)
			}
		})
	}
}

func TestBuffersCountForNothingWithoutTheirGate(t *testing.T) {
	c := buffered(pt.Pool("p"), []string{"a"}, 1)
	c.Options(planner.DefaultOptions())
	d, _ := disrupt.Plan(c.Snapshot())
	want(t, "decided", told(d), "emptiness a")
}

// A command that has begun is given up when the room that the buffer was to have is gone.
func TestACommandIsGivenUpWhenTheBuffersRoomIsGone(t *testing.T) {
	c := buffered(onlyEmpty(), []string{"a", "b"}, 1)
	c.See(drifted("a", 0))
	d, _ := disrupt.Plan(c.Snapshot())
	want(t, "decided", told(d), "emptiness a") // the room is on the one that has not drifted
	c = buffered(pt.Pool("p"), []string{"a", "b"}, 1, sized("x", "a", "2500m", "1Gi"))
	c.See(drifted("b", 0))
	d, _ = disrupt.Plan(c.Snapshot())
	if !strings.HasPrefix(told(d), "drift b; capacity-buffer-b-0 to a new") {
		t.Fatalf("decided %s", told(d))
	}
	want(t, "on record", d.Payload.(*ledger.CommandStarted).Candidates[0].Virtual[0].Name, "capacity-buffer-b-0")
	seq := c.Decide(c.Snapshot(), d)
	c.See(pt.Node("b", pt.InPool("p"), pt.Tainted(karpv1.DisruptedTaint()), pt.Marked(seq)))
	want(t, "holds", disrupt.Confirm(c.Snapshot(), c.Ledger.Commands()[0]).Outcome, disrupt.Confirmed)
	p := pt.Pool("p", func(p *karpv1.NodePool) {
		p.Spec.Template.Spec.Taints = []corev1.Taint{{Key: "x", Effect: corev1.TaintEffectNoSchedule}}
	})
	c.See(p)
	c.Record(ledger.KindClaimWithdrawn, &ledger.ClaimWithdrawn{Claim: ledger.ClaimName(c.Ledger.LogID(), "p", seq, 0)})
	v := disrupt.Confirm(c.Snapshot(), c.Ledger.Commands()[0])
	want(t, "given up", v.Outcome, disrupt.Rollback)
}
