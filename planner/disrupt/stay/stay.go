// Package stay explains why a node is still there: what keeps it and since when, what its removal would save,
// what its pods need, and what else would take them. It is for people and decides nothing: nothing of it is
// ever recorded.
package stay

import (
	"cmp"
	"fmt"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	karpv1 "millwright/api/karpenter/v1"
	"millwright/planner"
	"millwright/planner/condition"
	"millwright/planner/disrupt"
	"millwright/planner/disrupt/drainout"
	"millwright/planner/disrupt/internal/policy"
	"millwright/planner/disrupt/quiet"
	"millwright/planner/resource"
)

// Stay of a node.
type Stay struct {
	Node, Claim, NodePool            string
	InstanceType, CapacityType, Zone string
	// Command that takes it already; "" if none does.
	Command string
	// MicroUSDPerHour is its price, which is what its removal would save.
	MicroUSDPerHour int64
	// Pods need another place without it, and Requests are theirs.
	Pods     int
	Requests resource.Vector
	// Blockers are all that forbid its disruption now, first things first.
	Blockers []Blocker
	// DrainsOut says that it is to run empty by itself, since DrainsOutSince, or what keeps it from that; ""
	// if no DisruptionPolicy is about that, or other pods are on it.
	DrainsOut      string
	DrainsOutSince time.Time
	// Without it; nil if nothing on it would move, or it can't be said.
	Without *disrupt.Without
}

// Blocker keeps a node. Since is zero if nothing says since when. Note says why a policy that might be
// expected to help does not; "" if none is.
type Blocker struct {
	disrupt.Blocked
	Since time.Time
	Note  string
}

// Of explains a node; nil if there is none of that name.
func Of(s *planner.Snapshot, name string) *Stay {
	n := s.StateNode(name)
	if n == nil {
		return nil
	}
	x := &Stay{Node: n.Name, Claim: n.ClaimName(), NodePool: n.NodePool, InstanceType: n.InstanceTypeName(), CapacityType: n.CapacityType(),
		Zone: n.Zone(), MicroUSDPerHour: disrupt.Price(s, n)}
	if n.Claim != nil {
		x.Command = s.CommandOf(n.Claim.Name)
	}
	for _, pod := range n.Pods {
		if planner.IsReschedulable(pod) {
			x.Pods, x.Requests = x.Pods+1, x.Requests.Add(pod.Class.Requests)
		}
	}
	for _, b := range disrupt.Blockers(s, n) {
		x.Blockers = append(x.Blockers, Blocker{*b, since(s, n, b), noteOnSurge(s, n, b)})
	}
	x.DrainsOut, x.DrainsOutSince = drainout.Text(s, n)
	if x.Pods > 0 && n.Claim != nil && n.Node != nil && !n.MarkedForDeletion {
		w := disrupt.TryWithout(s, n)
		x.Without = &w
	}
	return x
}

// noteOnSurge is about a PodDisruptionBudget that keeps a node from commands although a policy wants pods
// that it never lets go replaced first: that begins once a command has taken the node.
func noteOnSurge(s *planner.Snapshot, n *planner.StateNode, b *disrupt.Blocked) string {
	if b.Cause != disrupt.CausePDB {
		return ""
	}
	for _, p := range policy.ByPool(s)[n.NodePool] {
		if p.Spec.Surge != nil {
			return fmt.Sprintf("surge of DisruptionPolicy %q begins once a command has taken the node, and none takes it while the budget allows no eviction", p.Name)
		}
	}
	return ""
}

// Instead is what the claims that would replace the node cost per hour, and by how much they save less than
// is asked for; 0 if they save enough.
func (x *Stay) Instead() (price, short int64) {
	for i := range x.Without.Claims {
		price += x.Without.Claims[i].Cheapest.MicroUSDPerHour
	}
	return price, max(0, price+x.Without.Least-x.MicroUSDPerHour)
}

// since is when what keeps a node began, as far as anything says so; for an annotation that is the age of
// what supports it, at most.
func since(s *planner.Snapshot, n *planner.StateNode, b *disrupt.Blocked) time.Time {
	switch b.Cause {
	case disrupt.CauseRemoving:
		if c := s.Ledger.Command(s.CommandOf(n.ClaimName())); c != nil {
			return c.At
		}
	case disrupt.CauseDeleting:
		if at := n.Claim.DeletionTimestamp; at != nil {
			return at.Time
		}
	case disrupt.CauseNotInitialized, disrupt.CauseTooYoung:
		return n.Claim.CreationTimestamp.Time
	case disrupt.CauseNodeAnnotation, disrupt.CauseNoPoolLabel:
		return n.Node.Object.CreationTimestamp.Time
	case disrupt.CauseTainted:
		for _, t := range n.Node.Object.Spec.Taints {
			if t.Key == karpv1.DisruptedTaintKey && t.TimeAdded != nil {
				return t.TimeAdded.Time
			}
		}
	case disrupt.CauseNominated:
		return nominatedSince(s, n)
	case disrupt.CauseNotQuiet:
		since, _ := quiet.Since(s.World, n.Claim, n.Name)
		return since
	case disrupt.CausePodAnnotation, disrupt.CauseOwnPods:
		for _, pod := range n.Pods {
			if b.Object == "pod "+pod.Key() || strings.Contains(b.Message, "(Pod="+pod.Key()+")") {
				return time.Unix(0, cmp.Or(pod.Started, pod.Created)).UTC()
			}
		}
	case disrupt.CauseScheduler:
		for _, pod := range s.World.PendingPods() {
			if b.Object == "pod "+pod.Key() {
				return time.Unix(0, pod.Created).UTC()
			}
		}
	case disrupt.CausePDB:
		for _, pdb := range s.World.PodDisruptionBudgets() {
			if b.Object == "PodDisruptionBudget "+pdb.Namespace+"/"+pdb.Name {
				return heldSince(pdb)
			}
		}
	case disrupt.CauseProposed, disrupt.CauseRejected:
		return proposedSince(s, b)
	case disrupt.CauseBudget:
		return budgetSince(s, n)
	}
	return time.Time{}
}

func nominatedSince(s *planner.Snapshot, n *planner.StateNode) (first time.Time) {
	for _, pod := range s.World.PendingPods() {
		v := s.Ledger.Verdict(pod.UID)
		if v != nil && (v.Node != "" && v.Node == n.Name || v.Claim != "" && v.Claim == n.ClaimName()) && (first.IsZero() || v.Since.Before(first)) {
			first = v.Since
		}
	}
	return first
}

// heldSince is when a PodDisruptionBudget ceased to allow disruptions, by its condition.
func heldSince(pdb *policyv1.PodDisruptionBudget) time.Time {
	if c := condition.Get(pdb.Status.Conditions, policyv1.DisruptionAllowedCondition); c != nil && c.Status == metav1.ConditionFalse {
		return c.LastTransitionTime.Time
	}
	return time.Time{}
}

func proposedSince(s *planner.Snapshot, b *disrupt.Blocked) time.Time {
	for _, x := range s.Ledger.Proposals() {
		if b.Object == "command "+x.ID {
			return x.At
		}
	}
	return time.Time{}
}

// budgetSince is when the last of the nodes began to go, or ceased to be ready, that use a NodePool's budget
// up.
func budgetSince(s *planner.Snapshot, of *planner.StateNode) (last time.Time) {
	later := func(at time.Time) {
		if at.After(last) {
			last = at
		}
	}
	for _, n := range s.StateNodes() {
		if n.NodePool != of.NodePool || n.Node == nil || n.Claim == nil {
			continue
		}
		if c := s.Ledger.Command(s.CommandOf(n.Claim.Name)); c != nil {
			later(c.At)
		} else if at := n.Claim.DeletionTimestamp; at != nil {
			later(at.Time)
		}
		for _, c := range n.Node.Object.Status.Conditions {
			if c.Type == corev1.NodeReady && c.Status != corev1.ConditionTrue {
				later(c.LastTransitionTime.Time)
			}
		}
	}
	return last
}
