package e2e

import (
	"slices"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"millwright/tools/ec2sim/simclient"
	"millwright/tools/stack"
)

// queued makes millwright read the interruption queue.
func queued(more ...string) func(*stack.Options) {
	return func(o *stack.Options) {
		o.MillwrightArgs = append(o.MillwrightArgs, append([]string{"--interruption-queue", stack.ClusterName}, more...)...)
	}
}

var spotPool = strings.Replace(defaultPool, "values: [on-demand]", "values: [spot]", 1)

// podOf returns the only pod of an app that is not being deleted; nil unless there is exactly one.
func (e *env) podOf(app string) *corev1.Pod {
	e.Helper()
	list, err := e.kube.CoreV1().Pods("default").List(e.Context(), metav1.ListOptions{LabelSelector: "app=" + app})
	if err != nil {
		e.Fatal(err)
	}
	pods := slices.DeleteFunc(list.Items, func(p corev1.Pod) bool { return p.DeletionTimestamp != nil })
	if len(pods) != 1 {
		return nil
	}
	return &pods[0]
}

func (e *env) instanceOf(node string) simclient.Instance {
	e.Helper()
	for _, i := range e.liveInstances() {
		if i.Node == node {
			return i
		}
	}
	return simclient.Instance{}
}

// TestSpotInterruption: a spot instance is reclaimed two minutes after its notice. Its replacement is ready
// long before that; pods that may move are moved at once; the pod that a PodDisruptionBudget holds is moved
// while there is still time to shut it down cleanly; and the log says why.
func TestSpotInterruption(t *testing.T) {
	e := start(t, queued())
	e.apply(defaultClass)
	e.apply(spotPool)
	e.deploy("free", 1, "1", "1Gi")
	e.running("free", 1)
	node := e.podOf("free").Spec.NodeName
	e.protect("held")
	e.deploy("held", 1, "100m", "100Mi")
	e.running("held", 1)
	if got := e.podOf("held").Spec.NodeName; got != node {
		t.Fatalf("held is on %s, free on %s", got, node)
	}
	instance := e.instanceOf(node)
	claim := instance.Tags["karpenter.sh/nodeclaim"]
	began := time.Now()
	if err := e.ec2.Interrupt(e.Context(), instance.ID, simclient.Interruption{}); err != nil {
		t.Fatal(err)
	}
	e.hasEvent("NodeClaim", claim, "SpotInterrupted: Spot interruption warning was triggered")
	e.hasEvent("Node", node, "TerminatingOnInterruption: Interruption triggered termination for the Node")
	moved := func(app string) {
		e.eventually(app+" runs elsewhere", func() string {
			if p := e.podOf(app); p == nil || p.Status.Phase != corev1.PodRunning || p.Spec.NodeName == node {
				return "it does not"
			}
			return ""
		})
	}
	moved("free")
	if p := e.podOf("held"); p == nil || p.Spec.NodeName != node {
		t.Errorf("held was moved after %s, against its budget", time.Since(began))
	}
	t.Logf("free runs elsewhere after %s", time.Since(began))
	if e.instanceOf(node).ID == "" {
		t.Error("the instance is gone already")
	}
	moved("held")
	after := time.Since(began)
	t.Logf("held runs elsewhere after %s", after)
	if after < time.Minute || after > 2*time.Minute {
		t.Errorf("held was moved after %s, want in the last half minute of the notice", after)
	}
	e.eventually("the claim is gone", func() string {
		for _, c := range e.nodeClaims() {
			if c.GetName() == claim {
				return "it is there"
			}
		}
		return ""
	})
	out, code := e.millctl("why", "node", node)
	for _, text := range []string{"spot_interrupted", "EC2 takes the spot instance back (terminate)", "deleted: default/held-"} {
		if code != 0 || !strings.Contains(out, text) {
			t.Errorf("why node %s: exit %d, nothing of %q\n%s", node, code, text, out)
		}
	}
	e.matched()
	e.scale("free", 0)
	e.scale("held", 0)
	e.clean()
	e.sound()
}

// TestRebalanceRecommendation: with the flag set, a spot node for which EC2 recommends rebalancing is
// replaced like a drifted one: the replacement comes first.
func TestRebalanceRecommendation(t *testing.T) {
	e := start(t, func(o *stack.Options) {
		o.FiveProcesses = true
		o.MillwrightArgs = append(o.MillwrightArgs, "--rebalance-recommendation", "Replace")
		o.ServiceArgs = map[string][]string{"watcher": {"--interruption-queue", stack.ClusterName}}
	})
	e.apply(defaultClass)
	e.apply(spotPool)
	e.deploy("web", 1, "1", "1Gi")
	e.running("web", 1)
	node := e.podOf("web").Spec.NodeName
	instance := e.instanceOf(node)
	if err := e.ec2.Interrupt(e.Context(), instance.ID, simclient.Interruption{Kind: "rebalance"}); err != nil {
		t.Fatal(err)
	}
	e.hasEvent("NodeClaim", instance.Tags["karpenter.sh/nodeclaim"], "SpotRebalanceRecommendation")
	e.eventually("web runs elsewhere", func() string {
		if p := e.podOf("web"); p == nil || p.Status.Phase != corev1.PodRunning || p.Spec.NodeName == node {
			return "it does not"
		}
		return ""
	})
	e.eventually("the instance is gone", func() string {
		if e.instanceOf(node).ID != "" {
			return "it is there"
		}
		return ""
	})
	if out, code := e.millctl("why", "node", node); code != 0 || !strings.Contains(out, "Drifted") {
		t.Errorf("why node %s: exit %d\n%s", node, code, out)
	}
	e.scale("web", 0)
	e.clean()
	e.sound()
}
