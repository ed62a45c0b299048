package provision

import (
	"cmp"
	"slices"
	"time"

	"k8s.io/apimachinery/pkg/types"

	"millwright/planner"
	"millwright/planner/world"
)

// boundWithin is how long a new pod counts as one that kube-scheduler is about to bind, though it has not
// said that it finds no node.
const boundWithin = time.Minute

// awaited are pods that Plan buys nothing for, but whose room nobody else may be given: those that
// kube-scheduler has still to look at or has a node in mind for, and, of those evicted from nodes that are
// going, as many as their owners have not created again yet (reference: disruption §5, Validation).
func awaited(s *planner.Snapshot) (list []*world.Pod) {
	for _, p := range s.World.PendingPods() {
		if isAboutToBeBound(p, s.Now) {
			list = append(list, p)
		}
	}
	return append(list, missing(s)...)
}

func isAboutToBeBound(p *world.Pod, now time.Time) bool {
	if p.NodeName != "" || !p.Active() || p.Class.DaemonSetOwned() || p.Class.Static() || len(p.Class.Spec.SchedulingGates) > 0 {
		return false
	}
	return p.NominatedNode != "" || !p.Unschedulable && now.Before(time.Unix(0, p.Created).Add(boundWithin))
}

// missing are the pods being deleted on nodes that are going in place of which there is no new one yet. Those
// of StatefulSets, whose new pods have their names, count as pods that move.
func missing(s *planner.Snapshot) (list []*world.Pod) {
	evicted, first := map[types.UID][]*world.Pod{}, map[types.UID]int64{}
	for _, n := range s.StateNodes() {
		if !n.MarkedForDeletion {
			continue
		}
		for _, p := range n.Pods {
			c := p.Class
			if p.Deleting == 0 || p.Terminal() || c.OwnerUID == "" || c.DaemonSetOwned() || c.Static() || planner.StatefulSetOwned(c) || s.Succeeded(p) {
				continue
			}
			evicted[c.OwnerUID] = append(evicted[c.OwnerUID], p)
			if at := evictedAt(p); first[c.OwnerUID] == 0 || at < first[c.OwnerUID] {
				first[c.OwnerUID] = at
			}
		}
	}
	if len(evicted) == 0 {
		return nil
	}
	created := map[types.UID]int{}
	count := func(p *world.Pod) {
		if at, ok := first[p.Class.OwnerUID]; ok && p.Active() && p.Created >= at {
			created[p.Class.OwnerUID]++
		}
	}
	for _, p := range s.World.PendingPods() {
		count(p)
	}
	for _, n := range s.StateNodes() {
		for _, p := range n.Pods {
			count(p)
		}
	}
	for owner, pods := range evicted {
		slices.SortFunc(pods, func(a, b *world.Pod) int { return cmp.Compare(a.UID, b.UID) })
		list = append(list, pods[min(created[owner], len(pods)):]...)
	}
	slices.SortFunc(list, func(a, b *world.Pod) int { return cmp.Compare(a.UID, b.UID) })
	return list
}

// evictedAt is when the deletion of a pod was asked for, to the second as its owner's new pods have it: its
// deletionTimestamp less its grace period.
func evictedAt(p *world.Pod) int64 {
	grace := int64(30)
	if g := p.Class.Spec.TerminationGracePeriodSeconds; g != nil {
		grace = *g
	}
	return p.Deleting - grace*int64(time.Second)
}
