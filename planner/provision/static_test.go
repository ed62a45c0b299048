package provision

import (
	"fmt"
	"slices"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	karpv1 "millwright/api/karpenter/v1"
	"millwright/planner/ledger"
)

func staticNodePool(replicas int64, nodes string) *karpv1.NodePool {
	p := newPool("fixed")
	p.Spec.Replicas = &replicas
	if nodes != "" {
		p.Spec.Limits = karpv1.Limits(amounts(map[string]string{"nodes": nodes}))
	}
	p.Spec.Template.Labels = map[string]string{"team": "red"}
	p.Spec.Template.Spec.Requirements = []karpv1.NodeSelectorRequirementWithMinValues{{Key: corev1.LabelInstanceTypeStable, Operator: "In", Values: []string{"c5.large", "m5.large"}}}
	return p
}

// join makes the planned claims of the last record nodes named a, b, … with the pods given.
func (c *cluster) join(t *testing.T, p *ledger.ProvisioningPlanned, first int, launched bool) (claims []string) {
	t.Helper()
	seq := c.ledger.Seq()
	for i := range p.Claims {
		claim := NodeClaim(c.ledger.LogID(), seq, i, p.Claims[i])
		claim.UID = types.UID("uid-" + claim.Name)
		claims = append(claims, claim.Name)
		c.record(t, ledger.KindClaimCreated, &ledger.ClaimCreated{Claim: claim.Name, UID: claim.UID})
		if launched {
			node := newNode(fmt.Sprintf("node-%d", first+i), map[string]string{"cpu": "2", "memory": "4Gi", "pods": "29"}, map[string]string{
				karpv1.NodePoolLabelKey: "fixed", karpv1.NodeRegisteredLabelKey: "true", karpv1.NodeInitializedLabelKey: "true", "team": "red"})
			claim.Status.ProviderID = node.Spec.ProviderID
			c.put(node)
		}
		c.put(claim)
	}
	return claims
}

func TestAStaticNodePoolHasItsReplicas(t *testing.T) {
	c := newCluster()
	c.catalogue()
	c.put(staticNodePool(3, "2"), newPod("a", map[string]string{"cpu": "1"}))
	p, r := c.plan(t)
	if len(p.Claims) != 2 || !slices.Equal(r.AtNodeLimit, []string{"fixed"}) {
		t.Fatalf("two claims are within the limit: %s, %v", encode(p), r.AtNodeLimit)
	}
	got := p.Claims[0]
	if len(got.InstanceTypes)+len(got.Pods) != 0 || !got.Requests.IsZero() || got.Labels["team"] != "red" || got.Labels[karpv1.NodePoolLabelKey] != "fixed" {
		t.Errorf("the claim is as its template: %+v", got)
	}
	if len(p.Refused) != 1 || p.Refused[0].Reasons[0].Message != "no dynamic nodepools found" {
		t.Errorf("a static NodePool opens no claims for pods: %+v", p.Refused)
	}
	c.join(t, p, 0, true)
	if p, _ := c.plan(t); p == nil || len(p.Placements) != 1 || len(p.Claims) != 0 {
		t.Fatalf("pods go to its nodes: %s", encode(p))
	}
	if p, r := c.plan(t); p != nil || len(r.AtNodeLimit) != 1 {
		t.Errorf("planned again at the limit: %s", encode(p))
	}
	c.put(staticNodePool(3, ""))
	p, _ = c.plan(t)
	if p == nil || len(p.Claims) != 1 {
		t.Fatalf("the third follows when the limit goes: %s", encode(p))
	}
}

// TestPodsWaitForStaticNodesToCome: a claim of a static NodePool takes pods that fit whatever it may become,
// so that no other NodePool opens one for them meanwhile.
func TestPodsWaitForStaticNodesToCome(t *testing.T) {
	c := newCluster()
	c.catalogue()
	c.put(staticNodePool(1, ""))
	c.plan(t)
	c.put(newPool("dynamic"), newPod("small", map[string]string{"cpu": "1"}), newPod("large", map[string]string{"cpu": "3"}))
	p, _ := c.plan(t)
	if p == nil || len(p.Placements) != 1 || len(p.Claims) != 1 || p.Claims[0].NodePool != "dynamic" {
		t.Fatalf("one pod fits c5.large and m5.large, the other does not: %s", encode(p))
	}
}

func TestAStaticNodePoolGivesUpItsExcess(t *testing.T) {
	c := newCluster()
	c.catalogue()
	c.put(staticNodePool(4, ""))
	p, _ := c.plan(t)
	nodes := c.join(t, p, 0, true)
	c.put(staticNodePool(5, ""))
	p, _ = c.plan(t)
	late := c.join(t, p, 4, false)
	// node-0 has a pod that must stay, node-1 two pods, node-2 one, node-3 only a DaemonSet's.
	held := newPod("held", nil)
	held.Annotations = map[string]string{karpv1.DoNotDisruptAnnotationKey: "true"}
	daemon := newPod("daemon", nil)
	yes := true
	daemon.OwnerReferences = []metav1.OwnerReference{{APIVersion: "apps/v1", Kind: "DaemonSet", Name: "d", UID: "d", Controller: &yes}}
	for pod, node := range map[*corev1.Pod]string{held: "node-0", newPod("b", nil): "node-1", newPod("c", nil): "node-1", newPod("d", nil): "node-2", daemon: "node-3"} {
		c.put(bound(pod, node))
	}
	byNode := map[string]string{}
	for _, n := range c.snapshot().StateNodes() {
		byNode[n.Name] = n.Claim.Name
	}
	if len(byNode) != 4 || len(nodes) != 4 {
		t.Fatalf("nodes: %v", byNode)
	}
	for _, want := range []string{late[0], byNode["node-3"], byNode["node-2"], byNode["node-1"], byNode["node-0"]} {
		active := int64(0)
		for _, p := range staticPools(c.snapshot()) {
			active = int64(len(p.active))
		}
		c.put(staticNodePool(active-1, ""))
		p, _ := c.plan(t)
		if p == nil || len(p.Excess) != 1 || p.Excess[0].Claim != want {
			t.Fatalf("want %s to go, got %s", want, encode(p))
		}
		if cl := c.ledger.Claim(want); cl.Doomed == nil || cl.Doomed.Reason != "scaled_down" {
			t.Fatalf("%s is not doomed", want)
		}
		if again, _ := c.plan(t); again != nil && len(again.Excess) > 0 {
			t.Fatalf("gave up more: %s", encode(again))
		}
	}
}

// TestAPlannedStaticClaimGoesFirst: while its NodeClaim is not made, no node goes in its stead.
func TestAPlannedStaticClaimGoesFirst(t *testing.T) {
	c := newCluster()
	c.catalogue()
	c.put(staticNodePool(2, ""))
	p, _ := c.plan(t)
	c.join(t, p, 0, true)
	c.put(staticNodePool(3, ""))
	p, _ = c.plan(t)
	late := ledger.ClaimName(c.ledger.LogID(), "fixed", c.ledger.Seq(), 0)
	c.put(staticNodePool(2, ""))
	if again, _ := c.plan(t); again != nil {
		t.Fatalf("a node goes instead of the claim that is planned: %s", encode(again))
	}
	c.join(t, p, 2, false)
	if p, _ := c.plan(t); p == nil || len(p.Excess) != 1 || p.Excess[0].Claim != late {
		t.Fatalf("%s should go: %s", late, encode(p))
	}
}

func TestAStaticNodePoolThatIsNotReadyOrGoingStays(t *testing.T) {
	c := newCluster()
	c.catalogue()
	unready := staticNodePool(2, "")
	unready.Status.Conditions[0].Status = metav1.ConditionFalse
	c.put(unready)
	if p, _ := c.plan(t); p != nil {
		t.Errorf("planned for a NodePool that is not ready: %s", encode(p))
	}
	going := staticNodePool(2, "")
	going.DeletionTimestamp = &metav1.Time{Time: noon}
	c.put(going)
	if p, _ := c.plan(t); p != nil {
		t.Errorf("planned for a NodePool that is being deleted: %s", encode(p))
	}
}
