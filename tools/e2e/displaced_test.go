package e2e

import (
	"fmt"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
)

// TestWhoTaintsEachNewNodeBuysNoFurtherOnes: somebody puts a NoExecute taint on each new node once a pod runs
// on it, so that the pod is made anew and fits no node. Three nodes are bought for it, and a fourth a minute
// later; that it waits, and why, is told. Once nobody taints nodes any more, it runs.
func TestWhoTaintsEachNewNodeBuysNoFurtherOnes(t *testing.T) {
	e := start(t, nil)
	e.apply(defaultClass)
	e.apply(defaultPool)
	e.deploy("web", 1, "1", "1Gi")
	began, bought, tainted := time.Now(), map[string]bool{}, 0
	for time.Since(began) < 45*time.Second {
		for _, c := range e.nodeClaims() {
			bought[c.GetName()] = true
		}
		if p := e.podOf("web"); p != nil && p.Spec.NodeName != "" && p.DeletionTimestamp == nil && e.expel(p.Spec.NodeName) {
			tainted++
		}
		time.Sleep(100 * time.Millisecond)
	}
	if tainted < 3 || len(bought) > 4 {
		t.Errorf("after %d nodes were tainted, %d were bought", tainted, len(bought))
	}
	e.hasEvent("Pod", e.podOf("web").Name, "NoExecute taints have driven the pods before it from 3 new nodes in a row")
	e.running("web", 1)
	e.scale("web", 0)
	e.clean()
	e.sound()
}

// expel puts a NoExecute taint on a node, and reports whether it was there to be tainted, and was not yet.
func (e *env) expel(node string) bool {
	e.Helper()
	n, err := e.kube.CoreV1().Nodes().Get(e.Context(), node, metav1.GetOptions{})
	if err != nil {
		return false
	}
	for _, taint := range n.Spec.Taints {
		if taint.Effect == corev1.TaintEffectNoExecute {
			return false
		}
	}
	patch := fmt.Sprintf(`[{"op": "test", "path": "/metadata/resourceVersion", "value": %q}, {"op": "add", "path": "/spec/taints", "value": [{"key": "test.example.com/expel", "effect": "NoExecute"}]}]`,
		n.ResourceVersion)
	_, err = e.kube.CoreV1().Nodes().Patch(e.Context(), node, types.JSONPatchType, []byte(patch), metav1.PatchOptions{})
	return err == nil
}
