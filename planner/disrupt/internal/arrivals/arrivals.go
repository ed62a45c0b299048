// Package arrivals says which nodes are about to get pods, so that none of them is taken for empty
// (reference: disruption §5, Validation), and whether kube-scheduler would bind pods that move. It is for
// package disrupt alone; its rules are tested there.
package arrivals

import (
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"millwright/planner"
	"millwright/planner/ledger"
	"millwright/planner/options"
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

// kube-scheduler takes up a new pod at once, unless it stands still or has many others before it: after
// stalledAfter one of these is so. A pod that it has not taken up for stalledMax waits for something else:
// some schedulers hold pods back until all of a group are there.
const (
	stalledAfter = 15*time.Second + ledger.ClockTolerance
	stalledMax   = 10 * time.Minute
)

// Stalled is the oldest pod that kube-scheduler has neither bound nor refused although it had time to, while
// nothing shows that it has taken up any pod since that one was created; nil if there is none.
func Stalled(s *planner.Snapshot) *world.Pod {
	if s.Options.Revision < options.Revision6 {
		return nil
	}
	var oldest *world.Pod
	for _, p := range s.World.PendingPods() {
		if age := s.Now.Sub(time.Unix(0, p.Created)); age >= stalledAfter && age <= stalledMax && untried(p) && (oldest == nil || p.Created < oldest.Created) {
			oldest = p
		}
	}
	if oldest == nil {
		return nil
	}
	since := func(p *world.Pod) bool { return max(p.TriedAt, p.Started) > oldest.Created }
	if slices.ContainsFunc(s.World.PendingPods(), since) {
		return nil
	}
	for _, n := range s.StateNodes() {
		if slices.ContainsFunc(n.Pods, since) {
			return nil
		}
	}
	return oldest
}

// untried reports that Kubernetes' own scheduler has said nothing of a pod.
func untried(p *world.Pod) bool {
	name := p.Class.Spec.SchedulerName
	return p.TriedAt == 0 && !p.Unschedulable && p.Active() && len(p.Class.Spec.SchedulingGates) == 0 && (name == "" || name == corev1.DefaultSchedulerName)
}
