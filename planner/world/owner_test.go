package world_test

import (
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"millwright/planner/plannertest"
)

// TestOwnersThatAreNoController: a Node or a DaemonSet owns a pod also without saying that it controls it
// (lifecycle §8.1); a controller comes first.
func TestOwnersThatAreNoController(t *testing.T) {
	yes := true
	node := metav1.OwnerReference{APIVersion: "v1", Kind: "Node", Name: "n"}
	daemon := metav1.OwnerReference{APIVersion: "apps/v1", Kind: "DaemonSet", Name: "d"}
	set := metav1.OwnerReference{APIVersion: "apps/v1", Kind: "ReplicaSet", Name: "r"}
	controller := metav1.OwnerReference{APIVersion: "apps/v1", Kind: "ReplicaSet", Name: "r", Controller: &yes}
	for name, x := range map[string]struct {
		owners          []metav1.OwnerReference
		static, daemons bool
	}{
		"a node":                       {[]metav1.OwnerReference{node}, true, false},
		"a DaemonSet":                  {[]metav1.OwnerReference{daemon}, false, true},
		"both":                         {[]metav1.OwnerReference{daemon, node}, true, false},
		"a ReplicaSet":                 {[]metav1.OwnerReference{set}, false, false},
		"another controller":           {[]metav1.OwnerReference{node, controller}, false, false},
		"a DaemonSet of another group": {[]metav1.OwnerReference{{APIVersion: "example.com/v1", Kind: "DaemonSet", Name: "d"}}, false, false},
	} {
		c := plannertest.New()
		c.See(&corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "p", UID: "p", OwnerReferences: x.owners}})
		class := c.World.Pod("p").Class
		if class.Static() != x.static || class.DaemonSetOwned() != x.daemons {
			t.Errorf("owned by %s: static %v, of a DaemonSet %v", name, class.Static(), class.DaemonSetOwned())
		}
	}
}
