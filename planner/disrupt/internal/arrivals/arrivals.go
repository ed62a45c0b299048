// Package arrivals says which nodes are about to get pods, so that none of them is taken for empty
// (reference: disruption §5, Validation). It is for package disrupt alone; its rules are tested there.
package arrivals

import (
	"k8s.io/apimachinery/pkg/types"

	"millwright/planner"
	"millwright/planner/provision"
	"millwright/planner/world"
)

// Nodes are those, by name, whose room is for pods that are not created again yet (absent, by UID), or that
// kube-scheduler has still to bind; waits says where pods that wait would go, by UID. Those that the hint
// of such a pod names are hinted: it goes there whatever room others have.
func Nodes(s *planner.Snapshot, absent func() map[types.UID]*world.Pod, waits func() map[types.UID]string) (names, hinted map[string]bool) {
	names, hinted = map[string]bool{}, map[string]bool{}
	come := unbound(s)
	for _, p := range come {
		if p.NominatedNode != "" {
			names[p.NominatedNode], hinted[p.NominatedNode] = true, true
		}
	}
	if s.Options.AwaitDeparted {
		for uid, p := range absent() {
			come[uid] = p
		}
	}
	if len(come) == 0 {
		return names, hinted
	}
	for uid, node := range waits() {
		if come[uid] != nil {
			names[node] = true
		}
	}
	return names, hinted
}

// unbound are the pods that kube-scheduler has still to bind, by UID.
func unbound(s *planner.Snapshot) map[types.UID]*world.Pod {
	pods := map[types.UID]*world.Pod{}
	if !s.Options.AwaitNewPods {
		return pods
	}
	for _, p := range s.World.PendingPods() {
		if provision.IsNew(p, s.Now) {
			pods[p.UID] = p
		}
	}
	return pods
}
