package e2e

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
)

// claimOf is a NodeClaim that somebody makes by hand: it belongs to no NodePool. spec is what it has
// besides its class.
func claimOf(name, class, metadata, spec string) string {
	return fmt.Sprintf(`
apiVersion: karpenter.sh/v1
kind: NodeClaim
metadata:
  name: %s
%s
spec:
  nodeClassRef: {group: karpenter.k8s.aws, kind: EC2NodeClass, name: %s}
%s`, name, metadata, class, spec)
}

const linuxOnly = `
    - {key: kubernetes.io/os, operator: In, values: [linux]}
    - {key: kubernetes.io/arch, operator: In, values: [amd64]}
    - {key: karpenter.sh/capacity-type, operator: In, values: [on-demand]}`

// NodeClaims without a NodePool get nodes, carry what they ask for onto them, take pods, and go with their
// nodes.
func TestNodeClaimsMadeByHand(t *testing.T) {
	e := start(t, nil)
	e.apply(defaultClass)
	e.apply(strings.NewReplacer("name: default", "name: unready", "subnetSelectorTerms: [{tags: {karpenter.sh/discovery: demo}}]", "subnetSelectorTerms: [{id: subnet-0123456789abcdef0}]").Replace(defaultClass))
	e.hasCondition(nodeClasses, "unready", "Ready", "False", "")
	e.hasCondition(nodeClasses, "default", "Ready", "True", "")

	e.apply(claimOf("family", "default", "", "  requirements:"+linuxOnly+`
    - {key: karpenter.k8s.aws/instance-category, operator: In, values: [c]}`))
	e.apply(claimOf("size", "default", "", "  requirements:"+linuxOnly+`
  resources: {requests: {cpu: "3", memory: 64Gi}}`))
	e.apply(claimOf("details", "default", `
  annotations: {example.com/note: kept}
  labels: {example.com/team: shop}`, "  requirements:"+linuxOnly+`
  taints:
    - {key: example.com/only, value: shop, effect: NoSchedule}
    - {key: example.com/only, value: shop, effect: NoExecute}
  startupTaints:
    - {key: example.com/booting, value: "true", effect: NoExecute}`))
	e.apply(claimOf("classless", "nowhere", "", "  requirements:"+linuxOnly))
	e.apply(claimOf("too-early", "unready", "", "  requirements:"+linuxOnly))

	e.claimReady("family")
	e.claimReady("size")
	if n := e.nodeOfClaim("family"); n.Labels["karpenter.k8s.aws/instance-category"] != "c" {
		t.Errorf("the node has labels %v", n.Labels)
	}
	n := e.nodeOfClaim("size")
	if n.Status.Allocatable.Cpu().Cmp(resource.MustParse("3")) < 0 || n.Status.Allocatable.Memory().Cmp(resource.MustParse("64Gi")) < 0 {
		t.Errorf("the node has %v", n.Status.Allocatable)
	}
	e.carries("details")
	e.takesPods("family")

	e.claimGone("classless")
	e.claimGone("too-early")

	e.deleteClaim("size")
	e.claimGone("size")
	node := e.nodeOfClaim("details").Name
	if err := e.kube.CoreV1().Nodes().Delete(e.Context(), node, metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	e.claimGone("details")
	e.scale("web", 0)
	e.deleteClaim("family")
	e.clean()
	e.sound()
}

// carries checks what the NodeClaim details asks for on its node, and that it waits for the startup taint.
func (e *env) carries(name string) {
	e.Helper()
	e.hasCondition(claimsGVR, name, "Registered", "True", "")
	e.hasCondition(claimsGVR, name, "Initialized", "Unknown", "StartupTaintsExist")
	n := e.nodeOfClaim(name)
	if n.Annotations["example.com/note"] != "kept" || n.Labels["example.com/team"] != "shop" {
		e.Errorf("node %s has annotations %v and labels %v", n.Name, n.Annotations, n.Labels)
	}
	has := map[string]bool{}
	for _, t := range n.Spec.Taints {
		has[t.ToString()] = true
	}
	for _, want := range []string{"example.com/only=shop:NoSchedule", "example.com/only=shop:NoExecute", "example.com/booting=true:NoExecute"} {
		if !has[want] {
			e.Errorf("node %s has taints %v, and not %s", n.Name, slices.Sorted(maps.Keys(has)), want)
		}
	}
	e.retry("take the startup taint away", func() error {
		n := e.nodeOfClaim(name)
		n.Spec.Taints = slices.DeleteFunc(n.Spec.Taints, func(t corev1.Taint) bool { return t.Key == "example.com/booting" })
		_, err := e.kube.CoreV1().Nodes().Update(e.Context(), &n, metav1.UpdateOptions{})
		return err
	})
	e.claimReady(name)
}

// takesPods has a pod run that asks for the node of a NodeClaim.
func (e *env) takesPods(claim string) {
	e.Helper()
	host := e.nodeOfClaim(claim).Labels["kubernetes.io/hostname"]
	e.deploy("web", 1, "100m", "64Mi", func(p *corev1.PodTemplateSpec) {
		p.Spec.NodeSelector = map[string]string{"kubernetes.io/hostname": host}
	})
	e.running("web", 1)
}

func (e *env) claimReady(name string) {
	e.Helper()
	e.hasCondition(claimsGVR, name, "Ready", "True", "")
}

func (e *env) deleteClaim(name string) {
	e.Helper()
	if err := e.dyn.Resource(claimsGVR).Delete(e.Context(), name, metav1.DeleteOptions{}); err != nil {
		e.Fatal(err)
	}
}

// claimGone waits until a NodeClaim is gone.
func (e *env) claimGone(name string) {
	e.Helper()
	e.eventually("NodeClaim "+name+" gone", func() string {
		for _, c := range e.nodeClaims() {
			if c.GetName() == name {
				return fmt.Sprintf("it is there: %v", conditionsOf(&c))
			}
		}
		return ""
	})
}

func conditionsOf(obj *unstructured.Unstructured) (list []string) {
	for _, kind := range []string{"Launched", "Registered", "Initialized", "Ready"} {
		status, reason, message := condition(obj, kind)
		list = append(list, fmt.Sprintf("%s=%s %s %s", kind, status, reason, message))
	}
	return list
}

// nodeOfClaim is the Node of a NodeClaim.
func (e *env) nodeOfClaim(claim string) (node corev1.Node) {
	e.Helper()
	e.eventually("the node of NodeClaim "+claim, func() string {
		obj, err := e.dyn.Resource(claimsGVR).Get(e.Context(), claim, metav1.GetOptions{})
		if err != nil {
			return err.Error()
		}
		name, _, _ := unstructured.NestedString(obj.Object, "status", "nodeName")
		if name == "" {
			return "it has none"
		}
		n, err := e.kube.CoreV1().Nodes().Get(e.Context(), name, metav1.GetOptions{})
		if err != nil {
			return err.Error()
		}
		node = *n
		return ""
	})
	return node
}
