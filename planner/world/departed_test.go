package world

import (
	"fmt"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
)

// TestDepartedPodsAreBounded: by number, by time, and by time of a clock that was set back; a version keeps
// what it had.
func TestDepartedPodsAreBounded(t *testing.T) {
	var d departed
	class := &PodClass{OwnerKind: "ReplicaSet", OwnerAPIVersion: "apps/v1"}
	at := time.Unix(1e9, 0)
	for i := range departedMax + 10 {
		d.add(&Pod{UID: types.UID(fmt.Sprint(i)), Class: class, NodeName: "n", EvictedAt: 1, Phase: corev1.PodRunning}, at.Add(time.Duration(i)*time.Millisecond))
	}
	list := d.Departed()
	if len(list) != departedMax || list[0].UID != "10" {
		t.Fatalf("%d pods have departed, %s first; want the last %d", len(list), list[0].UID, departedMax)
	}
	earlier := d
	if d.prune(at.Add(DepartedFor)) {
		t.Error("a pod was dropped too early")
	}
	if !d.prune(at.Add(DepartedFor+11*time.Millisecond)) || d.Departed()[0].UID != "12" {
		t.Errorf("pods that went two minutes ago are still there: %s", d.Departed()[0].UID)
	}
	d.add(&Pod{UID: "last", Class: class, NodeName: "n", EvictedAt: 1}, at)
	if got := earlier.Departed(); len(got) != departedMax || got[0].UID != "10" || got[departedMax-1].UID == "last" {
		t.Error("an earlier version has changed")
	}
	if d.prune(at.Add(-time.Hour)); len(d) != 0 {
		t.Errorf("%d pods went in the future", len(d))
	}
}
