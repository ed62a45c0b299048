package provision

import (
	"fmt"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"millwright/planner/ledger"
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
