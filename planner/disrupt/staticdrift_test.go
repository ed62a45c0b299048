package disrupt_test

import (
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	karpv1 "millwright/api/karpenter/v1"
	"millwright/planner/disrupt"
	"millwright/planner/ledger"
	pt "millwright/planner/plannertest"
	"millwright/planner/provision"
)

func replicas(n int64) func(*karpv1.NodePool) {
	return func(p *karpv1.NodePool) { p.Spec.Replicas = &n }
}

func nodesMax(n string) func(*karpv1.NodePool) {
	return func(p *karpv1.NodePool) { p.Spec.Limits = karpv1.Limits(pt.Resources("nodes", n)) }
}

// drifted is the claim of a node, drifted since so long after the start.
func drifted(node string, since time.Duration, options ...func(*karpv1.NodeClaim)) *karpv1.NodeClaim {
	return pt.Claim(node+"-claim", node, "p", append(options, func(c *karpv1.NodeClaim) {
		d := pt.True(karpv1.ConditionTypeDrifted, pt.Start.Add(since))
		d.Reason = "NodePoolDrifted"
		c.Status.Conditions = append(c.Status.Conditions, d)
	})...)
}

// fixed has a static pool p with two nodes that have drifted, b first, each with a pod.
func fixed(options ...func(*karpv1.NodePool)) *pt.Cluster {
	c := cluster(pt.Pool("p", append([]func(*karpv1.NodePool){replicas(2)}, options...)...), "a", "b")
	c.See(drifted("a", 2*time.Minute), drifted("b", time.Minute), pt.Pod("x", pt.On("a")), pt.Pod("y", pt.On("b")))
	return c
}

// The rules: disruption §5, scheduling §14.
func TestDriftedStaticNodesAreReplacedOneForOne(t *testing.T) {
	c := fixed()
	d, r := disrupt.Plan(c.Snapshot())
	want(t, "taken", taken(d), "b")
	want(t, "eligible", r.Eligible[karpv1.DisruptionReasonDrifted], 2)
	started := d.Payload.(*ledger.CommandStarted)
	want(t, "reason", started.Reason, karpv1.DisruptionReasonDrifted)
	want(t, "method", started.Method, disrupt.MethodStaticDrift)
	want(t, "pods", len(started.Candidates[0].Pods), 1)
	want(t, "replacements", len(started.Replacements), 1)
	want(t, "replacement's pool", started.Replacements[0].NodePool, "p")
	want(t, "replacement's list of types", len(started.Replacements[0].InstanceTypes), 0)
	want(t, "explained", d.Explanation.(disrupt.Explanation).Taken[0].Drifted, "NodePoolDrifted")
	c.Decide(c.Snapshot(), d)
	d, _ = disrupt.Plan(c.Snapshot())
	want(t, "taken next", taken(d), "a")
	c.Decide(c.Snapshot(), d)
	d, _ = disrupt.Plan(c.Snapshot())
	want(t, "taken then", taken(d), "")
	p := &ledger.ProvisioningPlanned{}
	if d, _ := provision.Plan(c.Snapshot()); d != nil {
		p = d.Payload.(*ledger.ProvisioningPlanned)
	}
	want(t, "claims that the provisioner makes or gives up", len(p.Claims)+len(p.Excess), 0)
}

// The rules: disruption §2.
func TestWhatKeepsADriftedStaticNode(t *testing.T) {
	grace := func(c *karpv1.NodeClaim) {
		c.Spec.TerminationGracePeriod = &metav1.Duration{Duration: time.Hour}
	}
	held := pt.Annotation(karpv1.DoNotDisruptAnnotationKey, "true")
	for name, tc := range map[string]struct {
		options []func(*karpv1.NodePool)
		do      func(*pt.Cluster)
		taken   string
		cause   disrupt.Cause // of the second node, b
	}{
		"no room within the limit on nodes": {options: []func(*karpv1.NodePool){nodesMax("2")}, cause: disrupt.CauseNodeLimit},
		"room for one more":                 {options: []func(*karpv1.NodePool){nodesMax("3")}, taken: "b"},
		"the budget for drift": {options: []func(*karpv1.NodePool){pt.Budgets(
			karpv1.Budget{Nodes: "0", Reasons: []karpv1.DisruptionReason{karpv1.DisruptionReasonDrifted}})}, cause: disrupt.CauseBudget},
		"the budget for another reason": {options: []func(*karpv1.NodePool){pt.Budgets(
			karpv1.Budget{Nodes: "0", Reasons: []karpv1.DisruptionReason{karpv1.DisruptionReasonEmpty}})}, taken: "b"},
		"more nodes than replicas": {options: []func(*karpv1.NodePool){replicas(1)}},
		"a pool that is not ready": {options: []func(*karpv1.NodePool){func(p *karpv1.NodePool) { p.Status.Conditions[0].Status = metav1.ConditionFalse }}},
		"a protected pod":          {do: func(c *pt.Cluster) { c.See(pt.Pod("y", pt.On("b"), held)) }, taken: "a", cause: disrupt.CausePodAnnotation},
		"a protected pod on a node that need not wait for it": {do: func(c *pt.Cluster) {
			c.See(pt.Pod("y", pt.On("b"), held), drifted("b", time.Minute, grace))
		}, taken: "b"},
		"Millwright's own pod, however the claim ends": {do: func(c *pt.Cluster) {
			c.See(pt.Pod("y", pt.On("b"), pt.Labels("app.kubernetes.io/name", "millwright")), drifted("b", time.Minute, grace))
		}, taken: "a", cause: disrupt.CauseOwnPods},
		"no drift any more":  {do: func(c *pt.Cluster) { c.See(pt.Claim("b-claim", "b", "p")) }, taken: "a", cause: disrupt.CauseStatic},
		"a dynamic NodePool": {options: []func(*karpv1.NodePool){func(p *karpv1.NodePool) { p.Spec.Replicas = nil }}, taken: "b"},
	} {
		t.Run(name, func(t *testing.T) {
			c := fixed(tc.options...)
			if tc.do != nil {
				tc.do(c)
			}
			d, r := disrupt.Plan(c.Snapshot())
			want(t, "taken", taken(d), tc.taken)
			got := disrupt.Cause("")
			if b := r.Nodes[1].Blocked; b != nil {
				got = b.Cause
			}
			want(t, "cause", got, tc.cause)
		})
	}
}

// The rules: disruption §6.
func TestConfirmOfStaticDrift(t *testing.T) {
	for name, tc := range map[string]struct {
		do      func(*pt.Cluster)
		outcome disrupt.Outcome
		reason  string
	}{
		"tainted, with its pods": {func(*pt.Cluster) {}, disrupt.Confirmed, ""},
		"it has not drifted any more": {func(c *pt.Cluster) { c.See(pt.Claim("b-claim", "b", "p")) },
			disrupt.Rollback, "node b: has not drifted any more"},
		"a pod is protected now": {func(c *pt.Cluster) {
			c.See(pt.Pod("y", pt.On("b"), pt.Annotation(karpv1.DoNotDisruptAnnotationKey, "true")))
		},
			disrupt.Rollback, `node b: pod has "karpenter.sh/do-not-disrupt" annotation (Pod=default/y)`},
		"the budget closed": {func(c *pt.Cluster) { c.See(pt.Pool("p", replicas(2), pt.Budgets(karpv1.Budget{Nodes: "0"}))) },
			disrupt.Rollback, "a candidate can no longer be disrupted without violating budgets"},
	} {
		t.Run(name, func(t *testing.T) {
			c := fixed()
			d, _ := disrupt.Plan(c.Snapshot())
			seq := c.Decide(c.Snapshot(), d)
			c.See(pt.Node("b", pt.InPool("p"), pt.Marked(seq)))
			tc.do(c)
			got := disrupt.Confirm(c.Snapshot(), c.Ledger.Command(ledger.CommandID(c.Ledger.LogID(), seq)))
			want(t, "outcome", got.Outcome, tc.outcome)
			want(t, "reason", got.Reason, tc.reason)
		})
	}
}
