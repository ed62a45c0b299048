package provision

import (
	"fmt"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"

	karpv1 "millwright/api/karpenter/v1"
	"millwright/planner"
	"millwright/planner/ledger"
)

// A pod that waits for a ready node and that kube-scheduler leaves unschedulable for stuckAfter has that node excluded
// for ledger.ExclusionTime: something keeps it away that these rules do not know. After excludedMax such nodes the
// pod is refused in kube-scheduler's words until the first exclusion ends (DESIGN §5).
const (
	stuckAfter  = 15 * time.Second
	excludedMax = 3
)

const constraintScheduler = "kube-scheduler"

// exclude takes over the exclusions on record. What is excluded for one pod is not offered to those like it.
func (s *solver) exclude() {
	for _, it := range s.items {
		for _, x := range s.in.excluded(it.pod.UID) {
			it.class.exclude(x.Node)
			it.excluded = append(it.excluded, x.Node)
		}
	}
}

func (c *class) exclude(node string) {
	if c.excluded == nil {
		c.excluded = map[string]bool{}
	}
	c.excluded[node] = true
}

// avoids reports that the pod must not stay with b, where it was placed before; and notes it if that is new.
func (s *solver) avoids(it *item, b *bin) bool {
	if b.node == nil {
		return false
	}
	if slices.Contains(it.excluded, b.node.Name) {
		return true
	}
	if !s.stuck(it, b.node) || !it.class.requests.Fits(b.free) {
		return false
	}
	it.excluded = append(it.excluded, b.node.Name)
	it.class.exclude(b.node.Name)
	s.newlyExcluded = append(s.newlyExcluded, exclusion{b.node.Name, it})
	return true
}

type exclusion struct {
	node string
	item *item
}

// stuck reports that the node has been ready for the pod long enough, and kube-scheduler does not take it.
func (s *solver) stuck(it *item, n *planner.StateNode) bool {
	if !it.pod.Unschedulable || it.pod.NodeName != "" || n.Node == nil || !n.Initialized || !n.Ready() {
		return false
	}
	since := s.in.since(it.pod.UID)
	if since.IsZero() {
		return false
	}
	return s.in.now.Sub(latest(since, readySince(n))) >= stuckAfter
}

// readySince is when the node became ready, or initialized if that was later.
func readySince(n *planner.StateNode) time.Time {
	var at time.Time
	for _, c := range n.Node.Object.Status.Conditions {
		if c.Type == corev1.NodeReady {
			at = c.LastTransitionTime.Time
		}
	}
	if n.Claim != nil {
		if c := planner.Condition(n.Claim.Status.Conditions, karpv1.ConditionTypeInitialized); c != nil {
			at = latest(at, c.LastTransitionTime.Time)
		}
	}
	return at
}

func latest(a, b time.Time) time.Time {
	if b.After(a) {
		return b
	}
	return a
}

// quoted refuses a pod that kube-scheduler puts on no node that would do.
func (it *item) quoted() []ledger.Refusal {
	nodes := slices.Sorted(slices.Values(it.excluded))
	text := fmt.Sprintf("kube-scheduler did not place the pod on %d ready nodes that have room for it (%s)", len(nodes), strings.Join(nodes, ", "))
	if it.pod.UnschedulableMessage != "" {
		text += ": " + it.pod.UnschedulableMessage
	}
	return []ledger.Refusal{{Constraint: constraintScheduler, Message: text}}
}

// exclusions are the new ones, by node.
func (s *solver) exclusions() []ledger.Exclusion {
	var list []ledger.Exclusion
	slices.SortStableFunc(s.newlyExcluded, func(a, b exclusion) int { return strings.Compare(a.node, b.node) })
	for _, x := range s.newlyExcluded {
		if len(list) == 0 || list[len(list)-1].Node != x.node {
			list = append(list, ledger.Exclusion{Node: x.node})
		}
		last := &list[len(list)-1]
		last.Pods = append(last.Pods, podRef(x.item.pod))
	}
	return list
}
