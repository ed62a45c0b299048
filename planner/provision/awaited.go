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
// kube-scheduler has still to look at or has a node in mind for, and those that Missing returns (reference:
// disruption §5, Validation).
func awaited(s *planner.Snapshot) (list []*world.Pod) {
	for _, p := range s.World.PendingPods() {
		if isAboutToBeBound(p, s.Now) {
			list = append(list, p)
		}
	}
	return append(list, Missing(s)...)
}

// IsNew reports that kube-scheduler has still to look at a pod, or is about to bind it.
func IsNew(p *world.Pod, now time.Time) bool {
	return isAboutToBeBound(p, now) && !p.Unschedulable && now.Before(time.Unix(0, p.Created).Add(boundWithin))
}

func isAboutToBeBound(p *world.Pod, now time.Time) bool {
	if p.NodeName != "" || !p.Active() || p.Class.DaemonSetOwned() || p.Class.Static() || len(p.Class.Spec.SchedulingGates) > 0 {
		return false
	}
	return p.NominatedNode != "" || !p.Unschedulable && now.Before(time.Unix(0, p.Created).Add(boundWithin))
}

// absence is what is missing of an owner's pods.
type absence struct {
	// pods that were evicted, or are on nodes that are going, and do not run any more; since is when the
	// first of them was asked to go.
	pods  []*world.Pod
	since int64
	// created counts the pods that came since and are not known to have come in place of others, active all
	// that are there, by name in named.
	created, active int
	named           map[string]bool
}

// Missing are pods in place of which their owners have not created new ones yet, by UID: those being deleted
// on nodes that are going and, with the option AwaitDeparted, those that were evicted from any node and have
// ended or are gone (world.World.Departed). Pods of StatefulSets, whose new pods have their names, count as
// pods that move until they have ended.
func Missing(s *planner.Snapshot) (list []*world.Pod) {
	owners := map[types.UID]*absence{}
	add := func(p *world.Pod, at int64) {
		a := owners[p.Class.OwnerUID]
		if a == nil {
			a = &absence{since: at, named: map[string]bool{}}
			owners[p.Class.OwnerUID] = a
		}
		a.pods, a.since = append(a.pods, p), min(a.since, at)
	}
	for _, n := range s.StateNodes() {
		for _, p := range n.Pods {
			if n.MarkedForDeletion && isReplacedWhileEnding(s, p) && !isTracked(s, p) {
				add(p, deletedAt(p))
			}
		}
	}
	if s.Options.AwaitDeparted {
		for _, p := range s.World.Departed() {
			if hasLeftItsNode(s, p) {
				add(p, p.EvictedAt)
			}
		}
	}
	if len(owners) == 0 {
		return nil
	}
	countPods(s, owners)
	for _, a := range owners {
		list = append(list, a.missing(s)...)
	}
	slices.SortFunc(list, compareUIDs)
	return list
}

// isReplacedWhileEnding reports a pod that is being deleted, and that its owner replaces at once.
func isReplacedWhileEnding(s *planner.Snapshot, p *world.Pod) bool {
	c := p.Class
	return p.Deleting != 0 && !p.Terminal() && c.OwnerUID != "" && !c.DaemonSetOwned() && !c.Static() && !planner.StatefulSetOwned(c) && !s.Succeeded(p)
}

// isTracked reports a pod that is among the World's departed ones for as long as it counts.
func isTracked(s *planner.Snapshot, p *world.Pod) bool {
	return s.Options.AwaitDeparted && p.Evicted() && p.Class.Replica()
}

// hasLeftItsNode reports that a departed pod is gone or has ended, or ends on a node that is going.
func hasLeftItsNode(s *planner.Snapshot, departed *world.Pod) bool {
	p := s.World.Pod(departed.UID)
	if p == nil || p.Terminal() {
		return true
	}
	n := s.StateNode(p.NodeName)
	return n != nil && n.MarkedForDeletion && isReplacedWhileEnding(s, p)
}

func countPods(s *planner.Snapshot, owners map[types.UID]*absence) {
	count := func(p *world.Pod) {
		a := owners[p.Class.OwnerUID]
		if a == nil || !p.Active() {
			return
		}
		a.active++
		a.named[p.Name] = true
		if p.Created >= a.since && !(s.Options.AwaitDeparted && p.Successor) {
			a.created++
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
}

// missing are as many of the pods as the owner has still to create. An owner that the World shows and that
// wants fewer has been scaled down meanwhile.
func (a *absence) missing(s *planner.Snapshot) []*world.Pod {
	slices.SortFunc(a.pods, compareUIDs)
	list, owner := a.pods, a.pods[0].Class
	if planner.StatefulSetOwned(owner) {
		list = slices.DeleteFunc(list, func(p *world.Pod) bool { return a.named[p.Name] })
	} else {
		list = list[min(a.created, len(list)):]
	}
	if wanted, known := replicasOf(s, a.pods[0]); known && s.Options.AwaitDeparted {
		list = list[:min(len(list), max(0, wanted-a.active))]
	}
	return list
}

// replicasOf is how many pods the owner of a pod wants, if the World shows it: it does only with
// CapacityBuffers.
func replicasOf(s *planner.Snapshot, p *world.Pod) (n int, known bool) {
	var replicas *int32
	key := p.Namespace + "/" + p.Class.OwnerName
	switch set, stateful := s.World.ReplicaSet(key), s.World.StatefulSet(key); {
	case p.Class.OwnerAPIVersion != "apps/v1":
		return 0, false
	case p.Class.OwnerKind == "ReplicaSet" && set != nil && set.UID == p.Class.OwnerUID:
		replicas = set.Spec.Replicas
	case p.Class.OwnerKind == "StatefulSet" && stateful != nil && stateful.UID == p.Class.OwnerUID:
		replicas = stateful.Spec.Replicas
	default:
		return 0, false
	}
	if replicas == nil {
		return 1, true
	}
	return int(*replicas), true
}

func compareUIDs(a, b *world.Pod) int { return cmp.Compare(a.UID, b.UID) }

// deletedAt is when the deletion of a pod was asked for, to the second as its owner's new pods have it: its
// deletionTimestamp less its grace period.
func deletedAt(p *world.Pod) int64 {
	grace := int64(30)
	if g := p.Class.Spec.TerminationGracePeriodSeconds; g != nil {
		grace = *g
	}
	return p.Deleting - grace*int64(time.Second)
}
