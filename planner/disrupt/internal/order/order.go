// Package order says which of the nodes that may go are to go first. It is for package disrupt alone;
// its rules are tested there.
package order

import (
	"cmp"
	"slices"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	karpv1 "millwright/api/karpenter/v1"
	"millwright/planner"
	"millwright/planner/condition"
)

// ByName orders nodes by name.
func ByName(a, b *planner.StateNode) int { return cmp.Compare(a.Name, b.Name) }

// Named returns the nodes by name.
func Named(nodes []*planner.StateNode) []*planner.StateNode {
	return slices.SortedFunc(slices.Values(nodes), ByName)
}

// Drifted is the condition Drifted of a node's claim if it is True; nil otherwise.
func Drifted(n *planner.StateNode) *metav1.Condition {
	if n.Claim == nil {
		return nil
	}
	if c := condition.Get(n.Claim.Status.Conditions, karpv1.ConditionTypeDrifted); c != nil && c.Status == "True" {
		return c
	}
	return nil
}

// ByDrift orders nodes by the time at which they drifted, then by name.
func ByDrift(a, b *planner.StateNode) int {
	return cmp.Or(Drifted(a).LastTransitionTime.Compare(Drifted(b).LastTransitionTime.Time), cmp.Compare(a.Name, b.Name))
}

// SortDrifted puts nodes without pods first, then those that drifted first. A node whose replacement failed
// comes after all whose replacement did not: otherwise it would be tried again and again while others wait,
// if budgets allow one node at a time.
func SortDrifted(s *planner.Snapshot, nodes []*planner.StateNode) {
	slices.SortStableFunc(nodes, func(a, b *planner.StateNode) int {
		return cmp.Or(Failed(s, a).Compare(Failed(s, b)), cmp.Compare(withPods(a), withPods(b)), ByDrift(a, b))
	})
}

// AnyFailed reports that a command that was to replace one of the nodes has failed for its replacements.
func AnyFailed(s *planner.Snapshot, nodes []*planner.StateNode) bool {
	return slices.ContainsFunc(nodes, func(n *planner.StateNode) bool { return !Failed(s, n).IsZero() })
}

// Failed is when a command that was to replace the node last failed for its replacements; zero if none did.
func Failed(s *planner.Snapshot, n *planner.StateNode) time.Time {
	if n.Claim == nil {
		return time.Time{}
	}
	if c := s.Ledger.Claim(n.Claim.Name); c != nil {
		return c.KeptAt
	}
	return time.Time{}
}

func withPods(n *planner.StateNode) int {
	if slices.ContainsFunc(n.Pods, planner.IsReschedulable) {
		return 1
	}
	return 0
}
