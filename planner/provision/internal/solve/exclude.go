package solve

import (
	"fmt"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"

	karpv1 "millwright/api/karpenter/v1"
	"millwright/planner"
	"millwright/planner/condition"
	"millwright/planner/ledger"
	"millwright/planner/options"
	"millwright/planner/provision/internal/place"
	"millwright/planner/provision/internal/volume"
)

// A pod that waits for a ready node and that kube-scheduler leaves unschedulable for stuckAfter has that node
// excluded for ledger.ExclusionTime: something that these rules do not know keeps it away. After excludedMax
// such nodes the pod is refused in kube-scheduler's words until the first exclusion ends (DESIGN §5). From
// Revision6 on kube-scheduler must have tried the pod since the node was as it is now: while it stands still,
// or has thousands of other pods to bind first, it says nothing against the node. Example: the node is ready
// at 10:00:00. kube-scheduler refuses the pod at 10:00:10 with a text that counts one node more: the node is
// excluded at 10:00:15. If it last wrote at 10:00:02, the node was perhaps not ready then: it is excluded
// after unknownAfter. If it has written nothing since the Node was made, after unseenAfter. With the option
// ExcludeRefusing a node that was to take the pod and has come with a taint, or without a label, that keeps
// it away is excluded likewise, at once: else one would be bought after the other. A node whose NodeClaim
// does not say that it is initialized, or is not known, is excluded after unknownAfter: far more than such
// news is late by, but pods do not wait for it without end. So is one on which the pod's volumes are still
// pending; when they ceased to be is not known, so that such pods have volumesAfter on any node.
const (
	stuckAfter   = 15 * time.Second
	volumesAfter = time.Minute
	unknownAfter = 5 * time.Minute
	unseenAfter  = 30 * time.Minute
	excludedMax  = 3
	// triedAfter is how much later than the node became as it is a refusal must be to be about that: clocks
	// may be apart, times are in whole seconds, and what kube-scheduler writes it has decided a moment
	// before.
	triedAfter = ledger.ClockTolerance + 2*time.Second
)

const constraintScheduler = "kube-scheduler"

// Exclude takes over the recorded exclusions. What is excluded for one pod is not offered to pods like it.
func (s *Solver) Exclude() {
	for _, it := range s.Items {
		for _, x := range s.In.Excluded(it.Pod.UID) {
			it.Class.exclude(x.Node)
			it.Excluded = append(it.Excluded, x.Node)
		}
	}
}

// avoids reports that the pod must not stay with b, where it was placed before; and records it if that is
// new.
func (s *Solver) avoids(it *Item, b *place.Bin) bool {
	n := b.Node()
	if n == nil {
		return false
	}
	name := n.State.Name
	if slices.Contains(it.Excluded, name) {
		return true
	}
	if !s.stuck(it, n.State) || !it.Class.Requests.Fits(n.Free) {
		return false
	}
	s.ExcludeFor(it, name)
	return true
}

// leaves has the pod look for another place than b, where it was placed before and cannot stay.
func (s *Solver) leaves(it *Item, b *place.Bin) {
	n := b.Node()
	if n == nil || !s.In.Options.ExcludeRefusing || slices.Contains(it.Excluded, n.State.Name) {
		return
	}
	if most := it.Class.Tries[len(it.Class.Levels)-1]; n.Refuses(most.Level) {
		s.ExcludeFor(it, n.State.Name)
	}
}

// ExcludeFor excludes a node for a pod, and for those like it, from here on.
func (s *Solver) ExcludeFor(it *Item, node string) {
	it.Excluded = append(it.Excluded, node)
	it.Class.exclude(node)
	s.newlyExcluded = append(s.newlyExcluded, exclusion{node, it})
}

type exclusion struct {
	node string
	item *Item
}

// stuck reports that the node has been ready for the pod long enough, and kube-scheduler does not use it.
func (s *Solver) stuck(it *Item, n *planner.StateNode) bool {
	if !it.Pod.Unschedulable || it.Pod.NodeName != "" || n.Node == nil || !n.Initialized || !n.Ready() {
		return false
	}
	since := s.In.Since(it.Pod.UID)
	if since.IsZero() {
		return false
	}
	return s.In.Now.Sub(planner.Latest(since, readySince(n))) >= s.patience(it, n)
}

// patience is how long kube-scheduler has for a pod and a node that is ready for it.
func (s *Solver) patience(it *Item, n *planner.StateNode) time.Duration {
	volumes := it.Class.Volumes
	hasVolumes := s.In.Options.Revision >= options.Revision2 && volumes != nil && len(volumes.Claims) > 0
	switch {
	case s.In.Options.ExcludeInitialized && !initializedByClaim(n), hasVolumes && volume.Pending(s.In.Volumes, n.Name, volumes):
		return max(unknownAfter, s.untried(it, n))
	case hasVolumes:
		return max(volumesAfter, s.untried(it, n))
	}
	return max(stuckAfter, s.untried(it, n))
}

// untried is how long kube-scheduler has to try a pod on a node, which is as it is since it became ready or
// a pod last came to it or left it; 0 if it has tried.
func (s *Solver) untried(it *Item, n *planner.StateNode) time.Duration {
	tried := time.Unix(0, it.Pod.TriedAt)
	switch {
	case s.In.Options.Revision < options.Revision6, tried.Sub(planner.Latest(readySince(n), s.In.LastPodEvent(n.Name))) >= triedAfter:
		return 0
	case tried.Before(n.Node.Object.CreationTimestamp.Time):
		return unseenAfter
	}
	return unknownAfter
}

// initializedByClaim reports that the node's NodeClaim says that it is initialized, so that it is known
// since when. A node of a NodePool whose NodeClaim is not known, or does not name it yet, has been seen
// before that; one of no NodePool has none.
func initializedByClaim(n *planner.StateNode) bool {
	if n.Claim == nil {
		return n.Node.Object.Labels[karpv1.NodePoolLabelKey] == ""
	}
	return condition.IsTrue(n.Claim.Status.Conditions, karpv1.ConditionTypeInitialized)
}

// readySince is when the node became ready, or initialized if that was later. The Node's label comes before
// the NodeClaim's condition, whose time is until then that of its creation.
func readySince(n *planner.StateNode) time.Time {
	var at time.Time
	for _, c := range n.Node.Object.Status.Conditions {
		if c.Type == corev1.NodeReady {
			at = c.LastTransitionTime.Time
		}
	}
	if n.Claim != nil {
		if c := condition.Get(n.Claim.Status.Conditions, karpv1.ConditionTypeInitialized); c != nil {
			at = planner.Latest(at, c.LastTransitionTime.Time)
		}
	}
	return at
}

// quoted refuses a pod that kube-scheduler does not put on any suitable node.
func (it *Item) quoted() []ledger.Refusal {
	nodes := slices.Sorted(slices.Values(it.Excluded))
	text := fmt.Sprintf("kube-scheduler did not place the pod on %d ready nodes that have room for it (%s)", len(nodes), strings.Join(nodes, ", "))
	if it.Pod.UnschedulableMessage != "" {
		text += ": " + it.Pod.UnschedulableMessage
	}
	return []ledger.Refusal{{Constraint: constraintScheduler, Message: text}}
}

// Exclusions are the new ones, by node.
func (s *Solver) Exclusions() []ledger.Exclusion {
	var list []ledger.Exclusion
	slices.SortStableFunc(s.newlyExcluded, func(a, b exclusion) int { return strings.Compare(a.node, b.node) })
	for _, x := range s.newlyExcluded {
		if len(list) == 0 || list[len(list)-1].Node != x.node {
			list = append(list, ledger.Exclusion{Node: x.node})
		}
		last := &list[len(list)-1]
		last.Pods = append(last.Pods, place.PodRef(x.item.Pod))
	}
	return list
}
