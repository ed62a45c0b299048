package provision

import (
	"encoding/json"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	karpv1 "millwright/api/karpenter/v1"
	"millwright/planner/ledger"
)

// TestAPlannedPodStaysWhileItsClaimBecomesANode follows a claim through its life: no step may plan again.
func TestAPlannedPodStaysWhileItsClaimBecomesANode(t *testing.T) {
	c := newCluster()
	c.catalogue()
	c.put(newPool("default"), newDaemonSet("agent", map[string]string{"cpu": "100m"}))
	pod := newPod("a", map[string]string{"cpu": "1500m", "memory": "1Gi"})
	pod.Spec.NodeSelector = map[string]string{corev1.LabelTopologyZone: "zone-b"}
	c.put(pod)
	p, _ := c.plan(t)
	claim := NodeClaim(c.ledger.LogID(), c.ledger.Seq(), 0, p.Claims[0])
	still := func(step string) {
		t.Helper()
		if p, _ := c.plan(t); p != nil {
			t.Fatalf("%s: planned again: %s", step, encode(p))
		}
	}
	still("planned")

	claim.UID = "claim-uid"
	c.put(claim)
	c.record(t, ledger.KindClaimCreated, &ledger.ClaimCreated{Claim: claim.Name, UID: claim.UID})
	still("created")

	c.record(t, ledger.KindLaunchRequested, &ledger.LaunchRequested{Claim: claim.Name, UID: claim.UID, Attempt: 1})
	still("launching")

	it := c.world.Catalog("default").Type("c5.large")
	c.record(t, ledger.KindLaunched, &ledger.Launched{Claim: claim.Name, UID: claim.UID, Attempt: 1, InstanceID: "i-1", ProviderID: "aws:///zone-b/i-1",
		InstanceType: "c5.large", Zone: "zone-b", CapacityType: "spot", Capacity: it.Capacity, Allocatable: it.Allocatable})
	still("launched, not yet seen")

	claim = claim.DeepCopy()
	claim.Status.ProviderID = "aws:///zone-b/i-1"
	c.put(claim)
	still("launched, the NodeClaim knows its instance only")

	claim = claim.DeepCopy()
	claim.Labels[corev1.LabelTopologyZone] = "zone-b"
	claim.Status.Capacity, claim.Status.Allocatable = it.Capacity.List(), it.Allocatable.List()
	c.put(claim)
	still("launched, the NodeClaim knows all")

	node := newNode("ip-1", map[string]string{"cpu": "1900m", "memory": "3500Mi", "pods": "29"}, nil)
	node.Spec.ProviderID = claim.Status.ProviderID
	node.Spec.Taints = []corev1.Taint{karpv1.UnregisteredTaint(), {Key: corev1.TaintNodeNotReady, Effect: corev1.TaintEffectNoSchedule}}
	c.put(node)
	still("the node joined")

	node = node.DeepCopy()
	node.Spec.Taints = nil
	node.Labels = map[string]string{corev1.LabelHostname: "ip-1", corev1.LabelTopologyZone: "zone-b", karpv1.NodePoolLabelKey: "default", karpv1.NodeRegisteredLabelKey: "true", karpv1.NodeInitializedLabelKey: "true"}
	c.put(node)
	still("the node is ready")

	c.put(bound(pod.DeepCopy(), "ip-1"))
	still("the pod runs")
}

func TestAPodOfADoomedClaimIsPlannedAnew(t *testing.T) {
	c := newCluster()
	c.catalogue()
	c.put(newPool("default"), newPod("a", map[string]string{"cpu": "1"}))
	p, _ := c.plan(t)
	name := ledger.ClaimName(c.ledger.LogID(), p.Claims[0].NodePool, c.ledger.Seq(), 0)
	c.record(t, ledger.KindClaimDoomed, &ledger.ClaimDoomed{Claim: name, Reason: "insufficient_capacity"})
	if p, _ = c.plan(t); p == nil || len(p.Claims) != 1 {
		t.Fatalf("got %s", encode(p))
	}
}

func TestNodeClaimIsTheSameEachTime(t *testing.T) {
	c := newCluster()
	c.catalogue()
	pool := newPool("default")
	pool.Spec.Template.Labels = map[string]string{"team": "red"}
	pool.Spec.Template.Annotations = map[string]string{"note": "x"}
	pool.Spec.Template.Spec.ExpireAfter = karpv1.NillableDuration{Raw: "720h"}
	pool.Spec.Template.Spec.TerminationGracePeriod = &metav1.Duration{Duration: 3600e9}
	pool.Spec.Template.Spec.StartupTaints = []corev1.Taint{{Key: "cni", Effect: "NoSchedule"}}
	pool.Spec.Template.Spec.Requirements = []karpv1.NodeSelectorRequirementWithMinValues{{Key: "shard", Operator: "Gt", Values: []string{"4"}}}
	c.put(pool, newPod("a", map[string]string{"cpu": "1", "memory": "1Gi"}))
	p, _ := c.plan(t)
	one := NodeClaim(c.ledger.LogID(), 7, 3, p.Claims[0])
	if a, b := encode(one), encode(NodeClaim(c.ledger.LogID(), 7, 3, p.Claims[0])); a != b {
		t.Fatalf("differ:\n%s\n%s", a, b)
	}
	var back ledger.PlannedClaim
	if err := json.Unmarshal([]byte(encode(p.Claims[0])), &back); err != nil {
		t.Fatal(err)
	}
	if a, b := encode(one), encode(NodeClaim(c.ledger.LogID(), 7, 3, back)); a != b {
		t.Fatalf("differ after the log:\n%s\n%s", a, b)
	}
	if one.Name != ledger.ClaimName(c.ledger.LogID(), "default", 7, 3) || one.Annotations[karpv1.RecordAnnotationKey] != c.ledger.LogID()+"/7" {
		t.Errorf("name %s, annotations %v", one.Name, one.Annotations)
	}
	wantLabels := map[string]string{"team": "red", "shard": "5", karpv1.NodePoolLabelKey: "default", "karpenter.k8s.aws/ec2nodeclass": "default"}
	if encode(one.Labels) != encode(wantLabels) {
		t.Errorf("labels %v", one.Labels)
	}
	if o := one.OwnerReferences; len(o) != 1 || o[0].UID != "uid-default" || o[0].Controller != nil || !*o[0].BlockOwnerDeletion {
		t.Errorf("owner %+v", o)
	}
	if one.Annotations["note"] != "x" || one.Annotations[karpv1.NodePoolHashAnnotationKey] == "" || one.Finalizers[0] != karpv1.TerminationFinalizer {
		t.Errorf("%+v", one.ObjectMeta)
	}
	if q := one.Spec.Resources.Requests[corev1.ResourceCPU]; q.Cmp(resource.MustParse("1")) != 0 || one.Spec.ExpireAfter.Raw != "720h" || len(one.Spec.StartupTaints) != 1 {
		t.Errorf("%+v", one.Spec)
	}
}

func TestPodsOfAGoingNodeArePlacedBeforeItGoes(t *testing.T) {
	c := newCluster()
	c.catalogue()
	c.put(newPool("default"), newNode("n1", map[string]string{"cpu": "4", "memory": "8Gi", "pods": "10"}, nil), newNode("n2", map[string]string{"cpu": "1", "memory": "8Gi", "pods": "10"}, nil))
	c.put(bound(newPod("small", map[string]string{"cpu": "500m"}), "n1"), bound(newPod("large", map[string]string{"cpu": "3"}), "n1"))
	if d, r := Plan(c.snapshot()); d != nil || len(r.Verdicts) != 0 {
		t.Fatalf("nothing goes, yet %s", encode(d))
	}
	sim := Simulate(c.snapshot(), Scenario{Without: []string{"n1"}})
	if len(sim.Claims) != 1 || sim.Refused != 0 || sim.PricePerHour != sim.Claims[0].Cheapest.MicroUSDPerHour {
		t.Fatalf("%+v", sim)
	}
	if v := sim.Verdicts; v[0].Pod.Name != "large" || v[0].NewClaim != 1 || v[1].Pod.Name != "small" || v[1].NewClaim+len(v[1].Node) == 0 {
		t.Fatalf("%+v", sim.Verdicts)
	}
	if sim = Simulate(c.snapshot(), Scenario{Without: []string{"n1"}, WithoutPools: []string{"default"}}); sim.Refused != 1 || len(sim.Claims) != 0 {
		t.Fatalf("without pools: %+v", sim)
	}
	now := metav1.NewTime(noon)
	n1 := newNode("n1", map[string]string{"cpu": "4", "memory": "8Gi", "pods": "10"}, nil)
	n1.DeletionTimestamp = &now
	c.put(n1)
	p, _ := c.plan(t)
	if p == nil || len(p.Claims) != 1 {
		t.Fatalf("a deleted node's pods: %s", encode(p))
	}
}

func TestADecisionNamesWhatItReliesOn(t *testing.T) {
	c := newCluster()
	c.catalogue()
	c.put(newPool("default"), newNode("n1", map[string]string{"cpu": "1", "pods": "10"}, map[string]string{karpv1.NodePoolLabelKey: "other"}))
	c.put(newPod("a", map[string]string{"cpu": "500m"}), newPod("b", map[string]string{"cpu": "1"}))
	s := c.snapshot()
	d, _ := Plan(s)
	want := s.Expect("pool/default", "pool/other")
	if encode(d.Expects) != encode(want) || encode(d.Advances) != `["pool/default"]` || encode(d.Subjects) != `["node/n1","pod/default/a","pod/default/b","pool/default"]` {
		t.Errorf("expects %s advances %s subjects %s", encode(d.Expects), encode(d.Advances), encode(d.Subjects))
	}
	x := d.Explanation.(Explanation)
	if x.Planned != 1 || x.Placed != 1 || len(x.Claims) != 1 || len(x.Claims[0].Alternatives) != alternativesShown || x.PricePerHour == 0 {
		t.Errorf("%s", encode(x))
	}
	if len(encode(x)) > 64<<10 {
		t.Error("too long")
	}
}

func TestExplanationsStayBelowTheLimit(t *testing.T) {
	c := newCluster()
	c.diverseTypes()
	c.put(newPool("default"))
	c.diversePods(2000, "hostname-anti")
	d, r := Plan(c.snapshot())
	x := d.Explanation.(Explanation)
	if n := len(encode(x)); n > 64<<10 || x.ClaimsLeftOut+len(x.Claims) != len(r.Claims) || len(x.Claims) == 0 {
		t.Errorf("%d bytes, %d claims, %d left out of %d", n, len(x.Claims), x.ClaimsLeftOut, len(r.Claims))
	}
}
