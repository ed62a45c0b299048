package e2e

import (
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"millwright/tools/stack"
)

func TestPodsGetNodesAndEmptyNodesGo(t *testing.T) {
	t.Parallel()
	shapes := map[string]func(*stack.Options){
		"in one process":    nil,
		"in five processes": func(o *stack.Options) { o.FiveProcesses = true },
	}
	for name, shape := range shapes {
		t.Run(name, func(t *testing.T) {
			e := start(t, shape)
			e.apply(defaultClass)
			e.apply(defaultPool)
			e.deploy("web", 6, "1", "1Gi")
			e.deploy("cache", 2, "500m", "14Gi")
			e.running("web", 6)
			e.running("cache", 2)
			e.matched()
			for _, n := range e.nodes() {
				e.looksRegistered(n)
			}
			e.scale("web", 0)
			e.scale("cache", 0)
			e.clean()
			e.sound()
		})
	}
}

// looksRegistered checks what users and their tools expect of a node (reference: lifecycle, registration).
func (e *env) looksRegistered(n corev1.Node) {
	e.Helper()
	for key, want := range map[string]string{
		"karpenter.sh/registered": "true", "karpenter.sh/nodepool": "default",
		"karpenter.sh/capacity-type": "on-demand", "kubernetes.io/arch": "amd64",
	} {
		if got := n.Labels[key]; got != want {
			e.Errorf("node %s: label %s is %q, want %q", n.Name, key, got, want)
		}
	}
	for _, key := range []string{"node.kubernetes.io/instance-type", "topology.kubernetes.io/zone", "karpenter.k8s.aws/instance-family"} {
		if n.Labels[key] == "" {
			e.Errorf("node %s: label %s is missing", n.Name, key)
		}
	}
	for _, taint := range n.Spec.Taints {
		if taint.Key == "karpenter.sh/unregistered" {
			e.Errorf("node %s still has taint %s", n.Name, taint.Key)
		}
	}
	if len(n.OwnerReferences) != 1 || n.OwnerReferences[0].Kind != "NodeClaim" {
		e.Errorf("node %s: owner references %v, want its NodeClaim", n.Name, n.OwnerReferences)
	}
	if len(n.Finalizers) != 1 || n.Finalizers[0] != "karpenter.sh/termination" {
		e.Errorf("node %s: finalizers %v", n.Name, n.Finalizers)
	}
}

func TestDeletingByHand(t *testing.T) {
	e := start(t, nil)
	e.apply(defaultClass)
	e.apply(defaultPool)
	e.deploy("web", 2, "1", "1Gi")
	e.running("web", 2)

	claim := e.nodeClaims()[0].GetName()
	if err := e.dyn.Resource(claimsGVR).Delete(e.Context(), claim, metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	e.eventually("the deleted NodeClaim gone and its pods elsewhere", func() string {
		for _, c := range e.nodeClaims() {
			if c.GetName() == claim {
				return "NodeClaim " + claim + " is still there"
			}
		}
		return ""
	})
	e.running("web", 2)

	node := e.nodes()[0].Name
	if err := e.kube.CoreV1().Nodes().Delete(e.Context(), node, metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	e.eventually("the deleted Node gone", func() string {
		for _, n := range e.nodes() {
			if n.Name == node {
				return "Node " + node + " is still there"
			}
		}
		return ""
	})
	e.running("web", 2)
	e.matched()
	e.scale("web", 0)
	e.clean()
	e.sound()
}

func TestDrainWaitsForPodDisruptionBudgets(t *testing.T) {
	e := start(t, nil)
	e.apply(defaultClass)
	e.apply(defaultPool)
	e.deploy("web", 1, "1", "1Gi")
	e.running("web", 1)
	e.protect("web")
	claim := e.nodeClaims()[0].GetName()
	if err := e.dyn.Resource(claimsGVR).Delete(e.Context(), claim, metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	node := e.nodes()[0].Name
	e.hasEvent("Node", node, "FailedDraining")
	if live := e.liveInstances(); len(live) == 0 {
		t.Fatal("the instance was terminated although a PodDisruptionBudget holds its pod")
	}
	if err := e.kube.PolicyV1().PodDisruptionBudgets("default").Delete(e.Context(), "web", metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	e.eventually("the node drained and gone", func() string {
		for _, n := range e.nodes() {
			if n.Name == node {
				return "Node " + node + " is still there"
			}
		}
		return ""
	})
	e.running("web", 1)
	e.scale("web", 0)
	e.clean()
	e.sound()
}

func TestWhyIsAnswered(t *testing.T) {
	e := start(t, nil)
	e.apply(defaultClass)
	e.apply(defaultPool)
	e.deploy("web", 1, "1", "1Gi")
	e.deploy("giant", 1, "5000", "1Gi")
	e.running("web", 1)
	node, claim := e.nodes()[0].Name, e.nodeClaims()[0].GetName()
	e.eventually("a verdict on the pod that never fits", func() string {
		pods, err := e.kube.CoreV1().Pods("default").List(e.Context(), metav1.ListOptions{LabelSelector: "app=giant"})
		if err != nil || len(pods.Items) == 0 {
			return "no pod"
		}
		out, _ := e.millctl("why", "pod", "default/"+pods.Items[0].Name)
		if !strings.Contains(out, "no instance type") {
			return out
		}
		return ""
	})
	e.scale("web", 0)
	e.scale("giant", 0)
	e.clean()
	for _, subject := range [][]string{{"node", node}, {"nodeclaim", claim}} {
		out, code := e.millctl(append([]string{"why"}, subject...)...)
		if code != 0 {
			t.Errorf("why %v: exit %d\n%s", subject, code, out)
		}
		for _, want := range []string{"$", "Empty", claim} {
			if !strings.Contains(out, want) {
				t.Errorf("why %v does not say %q:\n%s", subject, want, out)
			}
		}
	}
	e.sound()
}
