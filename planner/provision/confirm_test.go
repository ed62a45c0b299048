package provision

import (
	"fmt"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"pgregory.net/rapid"

	karpv1 "millwright/api/karpenter/v1"
	"millwright/planner/ledger"
)

// fails is what tests of package testing and of rapid have in common.
type fails interface {
	Helper()
	Fatalf(format string, args ...any)
}

// confirmsItself demands that a plan is confirmed as it is while nothing has changed.
func (c *cluster) confirmsItself(t fails) {
	t.Helper()
	s := c.snapshot()
	d, round := Plan(s)
	if d == nil || d.Kind == ledger.KindClaimWithdrawn {
		return
	}
	confirmed, after := Confirm(Search{s.Basis(), d, round}, c.snapshot())
	if confirmed == nil {
		t.Fatalf("nothing is confirmed of %s", encode(d.Payload))
	}
	p := *confirmed.Payload.(*ledger.ProvisioningPlanned)
	if p.Search == nil || p.Search.LedgerSeq != c.ledger.Seq() {
		t.Fatalf("search %+v", p.Search)
	}
	p.Search = nil
	if a, b := encode(d.Payload), encode(&p); a != b || d.Kind != confirmed.Kind {
		t.Fatalf("confirming changes the plan:\n%s\n%s", a, b)
	}
	if a, b := encode(d.Expects)+encode(d.Advances)+encode(d.Subjects), encode(confirmed.Expects)+encode(confirmed.Advances)+encode(confirmed.Subjects); a != b {
		t.Fatalf("confirming changes what is relied on:\n%s\n%s", a, b)
	}
	if a, b := encode(round.Verdicts), encode(after.Verdicts); a != b {
		t.Fatalf("confirming changes the verdicts:\n%s\n%s", a, b)
	}
}

// searched plans on the cluster as it is.
func (c *cluster) searched() Search {
	s := c.snapshot()
	d, r := Plan(s)
	return Search{s.Basis(), d, r}
}

// confirm confirms on the cluster as it has become.
func (c *cluster) confirm(t *testing.T, found Search) (*ledger.ProvisioningPlanned, Round) {
	t.Helper()
	d, r := Confirm(found, c.snapshot())
	if d == nil {
		return &ledger.ProvisioningPlanned{}, r
	}
	return d.Payload.(*ledger.ProvisioningPlanned), r
}

func TestConfirm(t *testing.T) {
	pods := func(c *cluster, n int, cpu string) []*corev1.Pod {
		var list []*corev1.Pod
		for i := range n {
			p := newPod(fmt.Sprintf("p-%d", i), map[string]string{"cpu": cpu})
			list = append(list, p)
			c.put(p)
		}
		return list
	}
	for name, tc := range map[string]struct {
		change func(c *cluster, pool *karpv1.NodePool, pods []*corev1.Pod)
		want   string // claims by number of pods and cheapest type; pods on nodes; pods refused
	}{
		"nothing changes": {func(*cluster, *karpv1.NodePool, []*corev1.Pod) {}, "claims [4 c5.4xlarge], placed 1, refused 0, cpu 12000"},
		"a pod is gone": {func(c *cluster, _ *karpv1.NodePool, pods []*corev1.Pod) { c.remove(pods[4]) },
			"claims [3 c5.4xlarge], placed 1, refused 0, cpu 9000"},
		"a pod is bound": {func(c *cluster, _ *karpv1.NodePool, pods []*corev1.Pod) {
			c.put(newNode("other", map[string]string{"cpu": "3", "memory": "8Gi", "pods": "9"}, nil), bound(pods[4].DeepCopy(), "other"))
		}, "claims [3 c5.4xlarge], placed 1, refused 0, cpu 9000"},
		"a pod is nominated": {func(c *cluster, _ *karpv1.NodePool, pods []*corev1.Pod) {
			p := pods[4].DeepCopy()
			p.Status.NominatedNodeName = "node"
			c.put(p)
		}, "claims [3 c5.4xlarge], placed 1, refused 0, cpu 9000"},
		"the node is gone: its pod finds another place": {func(c *cluster, _ *karpv1.NodePool, _ []*corev1.Pod) {
			c.remove(newNode("node", nil, nil))
		}, "claims [5 c5.4xlarge], placed 0, refused 0, cpu 15000"},
		"the node is full": {func(c *cluster, _ *karpv1.NodePool, _ []*corev1.Pod) {
			c.put(bound(newPod("guest", map[string]string{"cpu": "2"}), "node"))
		}, "claims [5 c5.4xlarge], placed 0, refused 0, cpu 15000"},
		"the NodePool is gone": {func(c *cluster, pool *karpv1.NodePool, _ []*corev1.Pod) { c.remove(pool) },
			"claims [], placed 1, refused 4, cpu 0"},
		"the NodePool is not ready": {func(c *cluster, pool *karpv1.NodePool, _ []*corev1.Pod) {
			p := pool.DeepCopy()
			p.Status.Conditions[0].Status = "False"
			c.put(p)
		}, "claims [], placed 1, refused 4, cpu 0"},
		"the NodePool says something else": {func(c *cluster, pool *karpv1.NodePool, _ []*corev1.Pod) {
			p := pool.DeepCopy()
			p.Spec.Template.Spec.Taints = []corev1.Taint{{Key: "x", Effect: corev1.TaintEffectNoSchedule}}
			c.put(p)
		}, "claims [], placed 1, refused 4, cpu 0"},
		"the limit is less": {func(c *cluster, pool *karpv1.NodePool, _ []*corev1.Pod) {
			p := pool.DeepCopy()
			p.Spec.Limits = karpv1.Limits(amounts(map[string]string{"cpu": "9"}))
			c.put(p)
		}, "claims [2 c5.2xlarge], placed 1, refused 2, cpu 6000"},
		"the cheapest type runs out": {func(c *cluster, _ *karpv1.NodePool, _ []*corev1.Pod) {
			for _, zone := range []string{"zone-a", "zone-b", "zone-c"} {
				for _, ct := range []string{"spot", "on-demand"} {
					c.record(t, ledger.KindLaunchFailed, &ledger.LaunchFailed{Claim: "x", Class: "no-capacity", Unavailable: []ledger.FailedOffering{
						{InstanceType: "c5.4xlarge", Zone: zone, CapacityType: ct, Code: "InsufficientInstanceCapacity"}}})
				}
			}
		}, "claims [4 m5.4xlarge], placed 1, refused 0, cpu 12000"},
		"a pod comes: it is for the next round": {func(c *cluster, _ *karpv1.NodePool, _ []*corev1.Pod) {
			c.put(newPod("late", map[string]string{"cpu": "100m"}))
		}, "claims [4 c5.4xlarge], placed 1, refused 0, cpu 12000"},
		"everything is gone": {func(c *cluster, _ *karpv1.NodePool, pods []*corev1.Pod) {
			for _, p := range pods {
				c.remove(p)
			}
		}, "claims [], placed 0, refused 0, cpu 0"},
	} {
		t.Run(name, func(t *testing.T) {
			c := newCluster()
			c.catalogue()
			pool := newPool("default")
			c.put(pool, newNode("node", map[string]string{"cpu": "3", "memory": "8Gi", "pods": "9"}, nil))
			list := pods(c, 5, "3")
			c.confirmsItself(t)
			found := c.searched()
			tc.change(c, pool, list)
			p, _ := c.confirm(t, found)
			claims, placed, refused, cpu := []string{}, 0, 0, int64(0)
			for _, x := range p.Claims {
				claims = append(claims, fmt.Sprintf("%d %s", len(x.Pods), x.InstanceTypes[0]))
				cpu += x.Requests.MilliCPU
			}
			for _, x := range p.Placements {
				placed += len(x.Pods)
			}
			for _, x := range p.Refused {
				refused += len(x.Pods)
			}
			if got := fmt.Sprintf("claims %v, placed %d, refused %d, cpu %d", claims, placed, refused, cpu); got != tc.want {
				t.Errorf("got  %s\nwant %s\n%s", got, tc.want, encode(p))
			}
		})
	}
}

// TestConfirmOfAWidening: a claim whose NodeClaim was made meanwhile is not widened; its pods find another
// place.
func TestConfirmOfAWidening(t *testing.T) {
	c, _, name := early(t)
	c.late(2)
	c.confirmsItself(t)
	found := c.searched()
	c.record(t, ledger.KindClaimCreated, &ledger.ClaimCreated{Claim: name, UID: "u"})
	p, round := c.confirm(t, found)
	if len(p.Widened) != 0 || len(p.Claims) != 1 || len(round.Verdicts) != 3 {
		t.Errorf("got %s", encode(p))
	}
}

// TestConfirmedPlansKeepEveryRule: the cluster changes while a plan is made; what is confirmed holds on it as
// it is then.
func TestConfirmedPlansKeepEveryRule(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		s := drawScene(t)
		c := s.cluster(nil)
		c.confirmsItself(t)
		found := c.searched()
		if found.Decision == nil {
			return
		}
		for i := len(s.pods) - 1; i >= 0; i-- {
			if rapid.IntRange(0, 3).Draw(t, "goes") == 0 {
				c.remove(s.pods[i])
				s.pods = append(s.pods[:i:i], s.pods[i+1:]...)
			}
		}
		for i := len(s.nodes) - 1; i >= 0; i-- {
			if rapid.IntRange(0, 2).Draw(t, "node goes") == 0 {
				c.remove(s.nodes[i])
				s.nodes = append(s.nodes[:i:i], s.nodes[i+1:]...)
			}
		}
		for _, p := range s.pools {
			if p.Spec.Limits != nil && rapid.Bool().Draw(t, "limit") {
				p.Spec.Limits = karpv1.Limits(amounts(map[string]string{"cpu": "9", "nodes": "2"}))
				c.put(p)
			}
		}
		d, _ := Confirm(found, c.snapshot())
		if d == nil {
			if len(s.pods) > 0 {
				t.Fatal("no decision on pods without a verdict")
			}
			return
		}
		p := d.Payload.(*ledger.ProvisioningPlanned)
		v := &verifier{t: t, scene: s, cluster: c}
		v.verify(p)
	})
}
