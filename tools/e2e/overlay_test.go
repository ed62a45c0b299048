package e2e

import (
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"

	"millwright/tools/stack"
)

var overlaysGVR = schema.GroupVersionResource{Group: "karpenter.sh", Version: "v1alpha1", Resource: "nodeoverlays"}

const overlayManifest = `
apiVersion: karpenter.sh/v1alpha1
kind: NodeOverlay
metadata: {name: NAME}
spec:
  requirements: [{key: node.kubernetes.io/instance-type, operator: In, values: [TYPE]}]
  CHANGE
`

func (e *env) overlay(name, instanceType, change string) {
	e.Helper()
	e.apply(strings.NewReplacer("NAME", name, "TYPE", instanceType, "CHANGE", change).Replace(overlayManifest))
}

// TestNodeOverlays: a price decides which type is chosen, a capacity makes a pod schedulable, and an overlay
// that is not applied reports it.
func TestNodeOverlays(t *testing.T) {
	e := start(t, func(o *stack.Options) {
		o.MillwrightArgs = append(o.MillwrightArgs, "--feature-gates=NodeOverlay=true")
	})
	e.apply(defaultClass)
	e.apply(strings.Replace(defaultPool, "{key: karpenter.k8s.aws/instance-category, operator: In, values: [c, m, r]}",
		"{key: node.kubernetes.io/instance-type, operator: In, values: [m5.large, c5.large]}", 1))
	e.overlay("cheap", "m5.large", `price: "0.01"`)
	e.hasCondition(overlaysGVR, "cheap", "ValidationSucceeded", "True", "")
	e.hasCondition(overlaysGVR, "cheap", "Ready", "True", "")
	e.deploy("web", 1, "1", "1Gi")
	e.running("web", 1)
	if live := e.liveInstances(); len(live) != 1 || live[0].Type != "m5.large" {
		t.Errorf("instances %v, want one m5.large, which the NodeOverlay makes cheaper than c5.large", live)
	}
	if a := e.nodeClaims()[0].GetAnnotations(); a["karpenter.sh/price-overlay-applied"] != "true" {
		t.Errorf("annotations of the NodeClaim: %v", a)
	}

	e.overlay("alike", "m5.large", `priceAdjustment: "+5%"`)
	e.hasCondition(overlaysGVR, "alike", "ValidationSucceeded", "False", "Conflict")
	e.hasCondition(overlaysGVR, "cheap", "ValidationSucceeded", "True", "")

	e.overlay("dongles", "c5.large", `capacity: {example.com/dongle: "2"}`)
	e.hasCondition(overlaysGVR, "dongles", "ValidationSucceeded", "True", "")
	e.deploy("dongle", 1, "1", "1Gi", func(p *corev1.PodTemplateSpec) {
		one := corev1.ResourceList{"example.com/dongle": resource.MustParse("1")}
		for k, v := range p.Spec.Containers[0].Resources.Requests {
			one[k] = v
		}
		p.Spec.Containers[0].Resources = corev1.ResourceRequirements{Requests: one, Limits: corev1.ResourceList{"example.com/dongle": resource.MustParse("1")}}
	})
	// The device plugin of this cluster is the test itself.
	e.eventually("a c5.large registers", func() string {
		for _, n := range e.nodes() {
			if n.Labels["node.kubernetes.io/instance-type"] == "c5.large" && n.Labels["karpenter.sh/registered"] == "true" {
				patch := []byte(`{"status":{"capacity":{"example.com/dongle":"2"},"allocatable":{"example.com/dongle":"2"}}}`)
				if _, err := e.kube.CoreV1().Nodes().Patch(e.Context(), n.Name, types.MergePatchType, patch, metav1.PatchOptions{}, "status"); err != nil {
					return err.Error()
				}
				return ""
			}
		}
		return "no such node"
	})
	e.running("dongle", 1)
	for _, c := range e.nodeClaims() {
		if c.GetLabels()["node.kubernetes.io/instance-type"] == "c5.large" && c.GetAnnotations()["karpenter.sh/capacity-overlay-applied"] != "true" {
			t.Errorf("annotations of NodeClaim %s: %v", c.GetName(), c.GetAnnotations())
		}
	}
	e.matched()
	for _, app := range []string{"web", "dongle"} {
		e.scale(app, 0)
	}
	e.clean()
	e.sound()
}
