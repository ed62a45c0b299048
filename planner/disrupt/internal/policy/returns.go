package policy

import (
	"slices"
	"time"

	karpv1 "millwright/api/karpenter/v1"
	mwv1alpha1 "millwright/api/millwright/v1alpha1"
	"millwright/planner/nodepool"
)

// Return is what the policies of a NodePool say of the return of its nodes to what is preferred.
type Return struct {
	// Policy that waits longest.
	Policy string
	// CapacityType and Weight are the preferences that nodes return for.
	CapacityType, Weight bool
	// AvailableFor is how long what is preferred must have been there.
	AvailableFor time.Duration
	// shares of the NodePool's nodes that may be going.
	shares []string
}

const (
	returnAvailableFor = 30 * time.Minute
	returnNodes        = "10%"
	// returnWaitMost bounds AvailableFor once it has doubled.
	returnWaitMost = 24 * time.Hour
)

// ReturnOf is nil if no policy wants nodes to return. One that can't be read wants nothing: it blocks
// everything.
func ReturnOf(list []*Policy) *Return {
	var r *Return
	for _, p := range list {
		want := p.Spec.ReturnToPreferred
		if want == nil || p.fault != "" {
			continue
		}
		wait := returnAvailableFor
		if want.AvailableFor != nil {
			wait = want.AvailableFor.Duration
		}
		if r == nil {
			r = &Return{CapacityType: true, Weight: true}
		}
		if r.Policy == "" || wait > r.AvailableFor {
			r.Policy, r.AvailableFor = p.Name, wait
		}
		wants := func(x mwv1alpha1.Preference) bool {
			return len(want.Preferences) == 0 || slices.Contains(want.Preferences, x)
		}
		r.CapacityType = r.CapacityType && wants(mwv1alpha1.PreferCapacityType)
		r.Weight = r.Weight && wants(mwv1alpha1.PreferNodePoolWeight)
		r.shares = append(r.shares, nodesOf(want))
	}
	return r
}

func nodesOf(r *mwv1alpha1.ReturnToPreferred) string {
	if r.Nodes == "" {
		return returnNodes
	}
	return r.Nodes
}

// checkReturn says what of it can't be read; nil if all can.
func checkReturn(r *mwv1alpha1.ReturnToPreferred) error {
	if r == nil {
		return nil
	}
	if errs := nodepool.CheckBudget(karpv1.Budget{Nodes: nodesOf(r)}); len(errs) > 0 {
		return errs[0]
	}
	return nil
}

// Allowed is how many of so many nodes may be going; the least of the policies counts.
func (r *Return) Allowed(nodes int, now time.Time) int {
	var budgets []karpv1.Budget
	for _, share := range r.shares {
		budgets = append(budgets, karpv1.Budget{Nodes: share})
	}
	n, err := nodepool.Allowed(budgets, mwv1alpha1.ReasonPreferredAvailable, nodes, now)
	if err != nil {
		return 0
	}
	return n
}

// Wait is AvailableFor, doubled with each time that EC2 took a return back.
func (r *Return) Wait(lost int) time.Duration {
	wait := r.AvailableFor
	for range lost {
		if wait >= returnWaitMost {
			break
		}
		wait = min(2*wait, returnWaitMost)
	}
	return wait
}
