package e2e

import (
	"fmt"
	"syscall"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"millwright/planner/ledger"
	"millwright/tools/stack"
)

// kube-scheduler stands still for as long as in an upgrade of a control plane, while nodes come for pods that
// it has refused: no second node is bought for them, and none of theirs goes. Then it does while NodePools
// drift: no pod is moved that nobody would bind.
func TestKubeSchedulerStandsStill(t *testing.T) {
	e := start(t, func(o *stack.Options) { o.EC2SimArgs = []string{"--boot-delay", "8s"} })
	e.apply(defaultClass)
	e.apply(defaultPool)
	e.deploy("web", 6, "3", "1Gi")
	e.eventually("kube-scheduler has refused the pods", func() string {
		if n := e.refused("web"); n < 6 {
			return fmt.Sprintf("%d of 6", n)
		}
		return ""
	})
	e.scheduler(syscall.SIGSTOP)
	claims := e.initialized()
	e.lasts(30*time.Second, "the nodes wait for their pods", func() string {
		if now := len(e.nodeClaims()); now != claims {
			return fmt.Sprintf("%d NodeClaims, there were %d", now, claims)
		}
		return ""
	})
	for _, r := range records[ledger.ProvisioningPlanned](e, "ProvisioningPlanned") {
		if len(r.Payload.Excluded) > 0 {
			t.Errorf("nodes are excluded: %+v", r.Payload.Excluded)
		}
	}
	e.scheduler(syscall.SIGCONT)
	e.running("web", 6)

	e.scheduler(syscall.SIGSTOP)
	e.scale("web", 7)
	time.Sleep(25 * time.Second)
	e.patch(nodePools, "default", "{spec: {template: {metadata: {labels: {revision: two}}}}}")
	e.eventually("a node says that it waits for kube-scheduler", func() string {
		list, err := e.kube.CoreV1().Events("default").List(e.Context(), metav1.ListOptions{FieldSelector: "involvedObject.kind=Node,reason=DisruptionBlocked"})
		if err != nil {
			return err.Error()
		}
		for i := range list.Items {
			if list.Items[i].Message == "Kube-scheduler has not looked at a new pod yet, pods that move would wait for it too (Pod="+e.untried("web")+")" {
				return ""
			}
		}
		return "none does"
	})
	if n := len(records[ledger.CommandStarted](e, "CommandStarted", "CommandMovesStarted")); n > 0 {
		t.Errorf("%d commands have started", n)
	}
	e.scheduler(syscall.SIGCONT)
	e.eventually("the nodes are replaced", func() string {
		for _, n := range e.nodes() {
			if n.Labels["revision"] != "two" {
				return n.Name
			}
		}
		return ""
	})
	e.running("web", 7)
	e.scale("web", 0)
	e.clean()
	e.sound()
}

// scheduler sends a signal to kube-scheduler.
func (e *env) scheduler(sig syscall.Signal) {
	e.Helper()
	if err := e.stack.Cluster.Signal("kube-scheduler", sig); err != nil {
		e.Fatal(err)
	}
}

// refused counts the pods of a Deployment that kube-scheduler has refused.
func (e *env) refused(app string) (n int) {
	for _, p := range e.podsOf(app) {
		for _, c := range p.Status.Conditions {
			if c.Type == corev1.PodScheduled && c.Reason == corev1.PodReasonUnschedulable {
				n++
			}
		}
	}
	return n
}

// untried is a pod of a Deployment, with its namespace, of which kube-scheduler has said nothing.
func (e *env) untried(app string) string {
	for _, p := range e.podsOf(app) {
		if len(p.Status.Conditions) == 0 {
			return p.Namespace + "/" + p.Name
		}
	}
	return ""
}

// podsOf returns the pods of a Deployment.
func (e *env) podsOf(app string) []corev1.Pod {
	e.Helper()
	list, err := e.kube.CoreV1().Pods("default").List(e.Context(), metav1.ListOptions{LabelSelector: "app=" + app})
	if err != nil {
		e.Fatal(err)
	}
	return list.Items
}

// initialized waits until all NodeClaims, one at least, are, and returns how many.
func (e *env) initialized() (n int) {
	e.Helper()
	e.eventually("all NodeClaims are initialized", func() string {
		n = 0
		for _, c := range e.nodeClaims() {
			if status, _, _ := condition(&c, "Initialized"); status != "True" {
				return c.GetName()
			}
			n++
		}
		if n == 0 {
			return "there are none"
		}
		return ""
	})
	return n
}
