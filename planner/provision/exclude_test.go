package provision

import (
	"fmt"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	karpv1 "millwright/api/karpenter/v1"
	"millwright/planner/ledger"
	"millwright/planner/options"
)

// withRoom is a cluster with n ready nodes that hold one more pod, and no pool.
func withRoom(n int) *cluster {
	c := newCluster()
	for i := range n {
		c.put(newNode(fmt.Sprintf("node-%d", i), map[string]string{"cpu": "1500m", "memory": "4Gi", "pods": "10"}, nil))
	}
	return c
}

func (c *cluster) placed(t *testing.T, pod string) string {
	t.Helper()
	c.plan(t)
	v := c.ledger.Verdict(newPod(pod, nil).UID)
	if v == nil {
		t.Fatalf("no verdict on %s", pod)
	}
	return v.Node
}

func TestANodeThatKubeSchedulerRefusesIsExcludedForAWhile(t *testing.T) {
	c := withRoom(2)
	p := newPod("p", map[string]string{"cpu": "1"})
	p.Status.Conditions[0].Message = "0/2 nodes are available: 2 node(s) were unlucky."
	c.put(p)
	at := func(since time.Duration, want string) {
		t.Helper()
		c.now = noon.Add(since)
		if got := c.placed(t, "p"); got != want {
			t.Errorf("after %s the pod waits for %q, want %q", since, got, want)
		}
	}
	at(0, "node-0")
	at(14*time.Second, "node-0")
	at(15*time.Second, "node-1")
	at(29*time.Second, "node-1")
	at(30*time.Second, "") // both are excluded, and nothing can be made
	at(5*time.Minute+14*time.Second, "")
	at(5*time.Minute+15*time.Second, "node-0")
}

func TestAfterThreeExclusionsKubeSchedulerIsQuoted(t *testing.T) {
	c := withRoom(4)
	p := newPod("p", map[string]string{"cpu": "1"})
	p.Status.Conditions[0].Message = "0/4 nodes are available: 4 node(s) were unlucky."
	c.put(p)
	for i := range 3 {
		c.now = noon.Add(time.Duration(i) * 15 * time.Second)
		if got := c.placed(t, "p"); got != fmt.Sprint("node-", i) {
			t.Fatalf("round %d: the pod waits for %q", i, got)
		}
	}
	c.now = noon.Add(45 * time.Second)
	d, r := Plan(c.snapshot())
	if r.Refused != 1 {
		t.Fatalf("%d pods refused, want 1", r.Refused)
	}
	text := r.Verdicts[0].Reasons[0].Message
	if !strings.Contains(text, "3 ready nodes") || !strings.HasSuffix(text, p.Status.Conditions[0].Message) {
		t.Errorf("the refusal does not quote kube-scheduler: %s", text)
	}
	if x := d.Payload.(*ledger.ProvisioningPlanned).Excluded; len(x) != 1 || x[0].Node != "node-2" {
		t.Errorf("excluded %+v, want node-2", x)
	}
}

func TestANodeIsNotExcludedBeforeItIsReady(t *testing.T) {
	c := withRoom(0)
	n := newNode("node-0", map[string]string{"cpu": "1500m", "memory": "4Gi", "pods": "10"}, nil)
	n.Status.Conditions = []corev1.NodeCondition{{Type: corev1.NodeReady, Status: corev1.ConditionFalse}}
	c.put(n, newPod("p", map[string]string{"cpu": "1"}))
	at := func(since time.Duration, want string) {
		t.Helper()
		c.now = noon.Add(since)
		if got := c.placed(t, "p"); got != want {
			t.Errorf("after %s the pod waits for %q, want %q", since, got, want)
		}
	}
	at(0, "node-0")
	at(time.Minute, "node-0")
	n = n.DeepCopy()
	n.Status.Conditions[0].Status, n.Status.Conditions[0].LastTransitionTime = corev1.ConditionTrue, metav1.NewTime(noon.Add(time.Minute))
	c.put(n)
	at(74*time.Second, "node-0")
	at(75*time.Second, "")
}

func TestAPodThatIsExcludedGetsAClaim(t *testing.T) {
	c := withRoom(1)
	c.catalogue()
	c.put(newPool("default"), newPod("p", map[string]string{"cpu": "1"}))
	if got := c.placed(t, "p"); got != "node-0" {
		t.Fatalf("the pod waits for %q", got)
	}
	c.now = noon.Add(15 * time.Second)
	// Another of its kind does not go where kube-scheduler does not put this one.
	c.put(newPod("q", map[string]string{"cpu": "1"}))
	p, r := c.plan(t)
	if r.Planned != 2 || len(p.Claims) == 0 || p.Claims[0].NodePool != "default" {
		t.Errorf("planned %d pods on %d claims, want both", r.Planned, len(p.Claims))
	}
}

// comes lets the only claim of the last record become a node, with what change does to it.
func (c *cluster) comes(t *testing.T, p *ledger.ProvisioningPlanned, change func(*corev1.Node)) string {
	t.Helper()
	if p == nil || len(p.Claims) != 1 {
		t.Fatalf("at %s no claim was planned: %s", c.now.Sub(noon), encode(p))
	}
	claim := NodeClaim(c.ledger.LogID(), c.ledger.Seq(), 0, p.Claims[0])
	it := c.world.Catalog("default").Type("c5.large")
	id := fmt.Sprintf("i-%d", c.ledger.Seq())
	claim.UID, claim.Status.ProviderID = types.UID("uid-"+claim.Name), "aws:///zone-b/"+id
	c.put(claim)
	c.record(t, ledger.KindClaimCreated, &ledger.ClaimCreated{Claim: claim.Name, UID: claim.UID})
	c.record(t, ledger.KindLaunched, &ledger.Launched{Claim: claim.Name, UID: claim.UID, Attempt: 1, InstanceID: id, ProviderID: claim.Status.ProviderID,
		InstanceType: "c5.large", Zone: "zone-b", CapacityType: "spot", Capacity: it.Capacity, Allocatable: it.Allocatable})
	node := newNode(id, map[string]string{"cpu": "1900m", "memory": "3500Mi", "pods": "29"}, map[string]string{
		corev1.LabelTopologyZone: "zone-b", karpv1.NodePoolLabelKey: "default", karpv1.NodeRegisteredLabelKey: "true", karpv1.NodeInitializedLabelKey: "true"})
	node.Spec.ProviderID = claim.Status.ProviderID
	change(node)
	c.put(node)
	return id
}

// The label that says so comes before the NodeClaim's condition, whose time is that of the creation until
// then: kube-scheduler has had no time yet for the pods of a node that took long to come.
func TestANodeIsNotExcludedBeforeItsNodeClaimIsInitialized(t *testing.T) {
	c := newCluster()
	c.options.ExcludeInitialized = true
	c.catalogue()
	pod := newPod("p", map[string]string{"cpu": "1"})
	c.put(newPool("default"), pod)
	p, _ := c.plan(t)
	node := c.comes(t, p, func(n *corev1.Node) {
		n.Status.Conditions = []corev1.NodeCondition{{Type: corev1.NodeReady, Status: corev1.ConditionTrue, LastTransitionTime: metav1.NewTime(noon)}}
	})
	initialized := func(status metav1.ConditionStatus, at time.Duration) {
		claim := c.world.NodeClaims()[0].DeepCopy()
		claim.Status.Conditions = []metav1.Condition{{Type: karpv1.ConditionTypeInitialized, Status: status, Reason: "R", LastTransitionTime: metav1.NewTime(noon.Add(at))}}
		c.put(claim)
	}
	for _, x := range []struct {
		at       time.Duration
		status   metav1.ConditionStatus
		since    time.Duration
		excluded bool
	}{
		{time.Minute, metav1.ConditionUnknown, 0, false},
		{61 * time.Second, metav1.ConditionTrue, time.Minute, false},
		{74 * time.Second, metav1.ConditionTrue, time.Minute, false},
		{75 * time.Second, metav1.ConditionTrue, time.Minute, true},
	} {
		initialized(x.status, x.since)
		c.now = noon.Add(x.at)
		c.plan(t)
		if got := len(c.ledger.Verdict(pod.UID).ExcludedAt(c.now)) > 0; got != x.excluded {
			t.Errorf("after %s node %s is excluded: %v, want %v", x.at, node, got, x.excluded)
		}
	}
}

// A Node can come before it is known which NodeClaim it is of, and since when it is initialized, but pods do
// not wait for ever; one of no NodePool never has a NodeClaim.
func TestANodeOfANodePoolIsNotExcludedBeforeItsNodeClaimIsKnown(t *testing.T) {
	for pool, after := range map[string]time.Duration{"default": 5 * time.Minute, "": 15 * time.Second} {
		c := newCluster()
		c.options.ExcludeInitialized = true
		c.catalogue()
		node := newNode("n", map[string]string{"cpu": "1900m", "memory": "3500Mi", "pods": "29"}, map[string]string{
			corev1.LabelTopologyZone: "zone-b", karpv1.NodePoolLabelKey: pool, karpv1.NodeRegisteredLabelKey: "true", karpv1.NodeInitializedLabelKey: "true"})
		if pool == "" {
			delete(node.Labels, karpv1.NodePoolLabelKey)
		}
		node.Spec.ProviderID = "aws:///zone-b/i-1"
		node.Status.Conditions = []corev1.NodeCondition{{Type: corev1.NodeReady, Status: corev1.ConditionTrue, LastTransitionTime: metav1.NewTime(noon)}}
		pod := newPod("p", map[string]string{"cpu": "1"})
		c.put(newPool("default"), node, pod)
		c.plan(t)
		if v := c.ledger.Verdict(pod.UID); v.Node != "n" {
			t.Fatalf("the pod waits for %+v", v)
		}
		for _, at := range []time.Duration{after - time.Second, after} {
			c.now = noon.Add(at)
			c.plan(t)
			if got := len(c.ledger.Verdict(pod.UID).ExcludedAt(c.now)) > 0; got != (at >= after) {
				t.Errorf("after %s a node of NodePool %q is excluded: %v", at, pool, got)
			}
		}
	}
}

// While kube-scheduler stands still, or is behind, nothing is known against a node: what it last wrote of the
// pod is older than the node as it is.
func TestANodeIsNotExcludedBeforeKubeSchedulerHasTriedThePod(t *testing.T) {
	const made, ready = time.Minute, 2 * time.Minute
	for about, x := range map[string]struct {
		tried, event, after time.Duration
	}{
		"it said nothing since the Node was made":         {0, 0, 30 * time.Minute},
		"it said something before the node was ready":     {made, 0, 5 * time.Minute},
		"it said something as the node became ready":      {ready + 6*time.Second, 0, 5 * time.Minute},
		"it has tried the pod":                            {ready + 7*time.Second, 0, 15 * time.Second},
		"it has tried the pod before another one came":    {ready + 7*time.Second, ready + time.Second, 5 * time.Minute},
		"it has tried the pod after another one had come": {ready + 8*time.Second, ready + time.Second, 15 * time.Second},
	} {
		t.Run(about, func(t *testing.T) {
			c := newCluster()
			c.options.Revision = options.Revision6
			pod := newPod("p", map[string]string{"cpu": "1"})
			pod.Status.Conditions[0].LastTransitionTime = metav1.NewTime(noon)
			node := newNode("n", map[string]string{"cpu": "1500m", "memory": "4Gi", "pods": "10"}, nil)
			node.CreationTimestamp = metav1.NewTime(noon.Add(made))
			node.Status.Conditions = []corev1.NodeCondition{{Type: corev1.NodeReady, Status: corev1.ConditionTrue, LastTransitionTime: metav1.NewTime(noon.Add(ready))}}
			c.put(pod, node)
			c.now = noon.Add(ready)
			if got := c.placed(t, "p"); got != "n" {
				t.Fatalf("the pod waits for %q", got)
			}
			if x.event > 0 {
				c.now = noon.Add(x.event)
				c.put(bound(newPod("other", map[string]string{"cpu": "100m"}), "n"))
			}
			pod = pod.DeepCopy()
			pod.Status.Conditions[0].LastProbeTime = metav1.NewTime(noon.Add(x.tried))
			c.put(pod)
			for _, at := range []time.Duration{x.after - time.Second, x.after} {
				c.now = noon.Add(ready + at)
				c.plan(t)
				if got := len(c.ledger.Verdict(pod.UID).ExcludedAt(c.now)) > 0; got != (at >= x.after) {
					t.Errorf("after %s the node is excluded: %v", at, got)
				}
			}
		})
	}
}

// The driver's pod starts after the node is ready, and a volume takes its time to be made.
func TestANodeIsNotExcludedWhileVolumesArePending(t *testing.T) {
	class, wait, driver := "ebs", storagev1.VolumeBindingWaitForFirstConsumer, "ebs.csi.aws.com"
	for about, x := range map[string]struct {
		registered bool
		selected   string
		after      time.Duration
	}{
		"the driver is not registered":    {false, "", 5 * time.Minute},
		"the volume is being made for it": {true, "n", 5 * time.Minute},
		"it was chosen for another node":  {true, "other", time.Minute},
		"the driver is registered":        {true, "", time.Minute},
	} {
		t.Run(about, func(t *testing.T) {
			c := newCluster()
			c.options.Revision = options.Revision2
			c.catalogue()
			node := newNode("n", map[string]string{"cpu": "1900m", "memory": "3500Mi", "pods": "29"}, map[string]string{corev1.LabelTopologyZone: "zone-b"})
			node.Status.Conditions = []corev1.NodeCondition{{Type: corev1.NodeReady, Status: corev1.ConditionTrue, LastTransitionTime: metav1.NewTime(noon)}}
			csi := &storagev1.CSINode{ObjectMeta: metav1.ObjectMeta{Name: "n"}}
			if x.registered {
				csi.Spec.Drivers = []storagev1.CSINodeDriver{{Name: driver}}
			}
			pvc := &corev1.PersistentVolumeClaim{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "data"}, Spec: corev1.PersistentVolumeClaimSpec{StorageClassName: &class}}
			if x.selected != "" {
				pvc.Annotations = map[string]string{"volume.kubernetes.io/selected-node": x.selected}
			}
			pod := newPod("p", map[string]string{"cpu": "1"})
			pod.Spec.Volumes = []corev1.Volume{{Name: "v", VolumeSource: corev1.VolumeSource{PersistentVolumeClaim: &corev1.PersistentVolumeClaimVolumeSource{ClaimName: "data"}}}}
			c.put(newPool("default"), node, csi, pvc, pod,
				&storagev1.StorageClass{ObjectMeta: metav1.ObjectMeta{Name: class}, Provisioner: driver, VolumeBindingMode: &wait})
			c.plan(t)
			if v := c.ledger.Verdict(pod.UID); v.Node != "n" {
				t.Fatalf("the pod waits for %+v", v)
			}
			for _, at := range []time.Duration{x.after - time.Second, x.after} {
				c.now = noon.Add(at)
				c.plan(t)
				if got := len(c.ledger.Verdict(pod.UID).ExcludedAt(c.now)) > 0; got != (at >= x.after) {
					t.Errorf("after %s the node is excluded: %v", at, got)
				}
			}
		})
	}
}

// Somebody taints each new node, or takes its label away: a pod that waits for such nodes gets three, and
// then waits until the first of them is forgotten.
func TestNodesThatRefuseThePodTheyWereBoughtFor(t *testing.T) {
	for about, change := range map[string]func(*corev1.Node){
		"a taint": func(n *corev1.Node) {
			n.Spec.Taints = []corev1.Taint{{Key: "test", Value: "true", Effect: corev1.TaintEffectNoExecute}}
		},
		"no label": func(n *corev1.Node) { delete(n.Labels, corev1.LabelTopologyZone) },
	} {
		t.Run(about, func(t *testing.T) {
			c := newCluster()
			c.options.ExcludeRefusing = true
			c.catalogue()
			pod := newPod("p", map[string]string{"cpu": "1"})
			pod.Spec.NodeSelector = map[string]string{corev1.LabelTopologyZone: "zone-b"}
			c.put(newPool("default"), pod)
			for range 3 {
				p, _ := c.plan(t)
				c.comes(t, p, change)
				c.now = c.now.Add(time.Second)
			}
			c.plan(t)
			for _, second := range []int{4, 60, 300} {
				c.now = noon.Add(time.Duration(second) * time.Second)
				if p, _ := c.plan(t); p != nil && len(p.Claims) > 0 {
					t.Fatalf("after %d s another is bought", second)
				}
			}
			if v := c.ledger.Verdict(pod.UID); v.Claim != "" || v.Node != "" {
				t.Errorf("the pod waits for %s%s", v.Claim, v.Node)
			}
			c.now = noon.Add(301 * time.Second)
			if p, _ := c.plan(t); p == nil || len(p.Claims) != 1 {
				t.Errorf("the first is forgotten, and %s", encode(p))
			}
		})
	}
}

// A node that takes other pods in place of the one it was bought for, is not ready, or starts yet, keeps
// nobody away.
func TestNodesThatDoNotRefuse(t *testing.T) {
	for about, change := range map[string]func(c *cluster, n *corev1.Node){
		"full of others": func(c *cluster, n *corev1.Node) {
			c.put(bound(newPod("other-"+n.Name, map[string]string{"cpu": "1500m"}), n.Name))
		},
		"not ready any more": func(_ *cluster, n *corev1.Node) {
			n.Status.Conditions = []corev1.NodeCondition{{Type: corev1.NodeReady, Status: corev1.ConditionFalse}}
			n.Spec.Taints = []corev1.Taint{{Key: corev1.TaintNodeNotReady, Effect: corev1.TaintEffectNoSchedule}}
		},
		"on its way out": func(_ *cluster, n *corev1.Node) { n.Spec.Taints = []corev1.Taint{karpv1.DisruptedTaint()} },
	} {
		t.Run(about, func(t *testing.T) {
			c := newCluster()
			c.options.ExcludeRefusing = true
			c.catalogue()
			c.put(newPool("default"), newPod("p", map[string]string{"cpu": "1"}))
			for range 5 {
				p, _ := c.plan(t)
				c.comes(t, p, func(n *corev1.Node) { change(c, n) })
				c.now = c.now.Add(time.Second)
			}
		})
	}
}
