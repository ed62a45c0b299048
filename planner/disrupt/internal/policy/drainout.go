package policy

import (
	"cmp"
	"time"

	karpv1 "millwright/api/karpenter/v1"
	mwv1alpha1 "millwright/api/millwright/v1alpha1"
	"millwright/planner/nodepool"
)

// DrainOut is what the policies of a NodePool say of nodes that are to run empty by themselves.
type DrainOut struct {
	// Policy that wants it, the first by name.
	Policy string
	shares []string
}

const drainOutNodes = "10%"

// DrainOutOf is nil if no policy lets nodes drain out. One that can't be read wants nothing: it blocks
// everything.
func DrainOutOf(list []*Policy) *DrainOut {
	var d *DrainOut
	for _, p := range list {
		if p.Spec.DrainOut == nil || p.fault != "" {
			continue
		}
		if d == nil {
			d = &DrainOut{Policy: p.Name}
		}
		d.shares = append(d.shares, shareOf(p.Spec.DrainOut))
	}
	return d
}

func shareOf(d *mwv1alpha1.DrainOut) string { return cmp.Or(d.Nodes, drainOutNodes) }

// checkDrainOut says what of it can't be read; nil if all can.
func checkDrainOut(d *mwv1alpha1.DrainOut) error {
	if d == nil {
		return nil
	}
	if errs := nodepool.CheckBudget(karpv1.Budget{Nodes: shareOf(d)}); len(errs) > 0 {
		return errs[0]
	}
	return nil
}

// Allowed is how many of so many nodes may drain out at a time; the least of the policies counts.
func (d *DrainOut) Allowed(nodes int, now time.Time) int {
	var budgets []karpv1.Budget
	for _, share := range d.shares {
		budgets = append(budgets, karpv1.Budget{Nodes: share})
	}
	n, err := nodepool.Allowed(budgets, karpv1.DisruptionReasonUnderutilized, nodes, now)
	if err != nil {
		return 0
	}
	return n
}
