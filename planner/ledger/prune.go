package ledger

import (
	"slices"

	corev1 "k8s.io/api/core/v1"

	karpv1 "millwright/api/karpenter/v1"
	"millwright/planner/intern"
)

// The Ledger holds a claim for as long as its node lives, so it keeps only the part of the plan that is still
// read: everything until the instance exists, then only its own type until the node is ready, and from then
// on neither pods nor labels. Claims with equal plans share their lists. Payloads of entries are never
// changed, only copied.

// kept returns a planned claim as the Ledger keeps it, sharing lists of instance types with those planned
// last.
func (l *Ledger) kept(p *PlannedClaim) *PlannedClaim {
	c := *p
	c.InstanceTypes = l.sharedTypes(p.InstanceTypes)
	c.Requirements = slices.Clone(p.Requirements)
	for i := range c.Requirements {
		if c.Requirements[i].Key == corev1.LabelInstanceTypeStable {
			c.Requirements[i].Values = l.sharedTypes(c.Requirements[i].Values)
		}
	}
	c.Labels, c.Annotations = intern.Map(p.Labels), intern.Map(p.Annotations)
	return &c
}

// prune drops from a claim that was just decoded what earlier programs kept in it.
func (l *Ledger) prune(c *Claim) {
	if c.Planned != nil {
		c.Planned = l.kept(c.Planned)
	}
	if c.Instance != nil {
		c.Instance = c.Instance.kept()
		c.Planned = c.Planned.launched(c.Instance.InstanceType)
	}
	if c.Failed != nil {
		c.Failed.Unavailable = nil
	}
	if c.State == ClaimInitializedState {
		c.Planned = c.Planned.ready()
	}
}

// typeListsMax bounds the lists of instance types that are compared with a new one.
const typeListsMax = 64

// sharedTypes returns an equal list that was kept before, or the list itself.
func (l *Ledger) sharedTypes(types []string) []string {
	if len(types) < 2 {
		return types
	}
	if i := slices.IndexFunc(l.typeLists, func(known []string) bool { return slices.Equal(known, types) }); i >= 0 {
		return l.typeLists[i]
	}
	list := make([]string, len(types))
	for i, t := range types {
		list[i] = intern.String(t)
	}
	from := max(0, len(l.typeLists)+1-typeListsMax)
	l.typeLists = append(slices.Clone(l.typeLists[from:]), list)
	return list
}

// launched is what is kept of a plan once it is known which of its types was launched.
func (p *PlannedClaim) launched(instanceType string) *PlannedClaim {
	if p == nil || instanceType == "" {
		return p
	}
	c := *p
	c.InstanceTypes = []string{intern.String(instanceType)}
	c.Requirements = slices.Clone(p.Requirements)
	for i := range c.Requirements {
		if r := &c.Requirements[i]; r.Key == corev1.LabelInstanceTypeStable && r.Operator == corev1.NodeSelectorOpIn {
			*r = karpv1.NodeSelectorRequirementWithMinValues{Key: r.Key, Operator: r.Operator, Values: c.InstanceTypes}
		}
	}
	return &c
}

// ready is what is kept of a plan once its node is ready: its pods are bound, or have verdicts of their own.
func (p *PlannedClaim) ready() *PlannedClaim {
	if p == nil {
		return nil
	}
	c := *p
	c.Pods, c.Labels, c.Annotations = nil, nil, nil
	return &c
}

// kept returns a launch as the Ledger keeps it: the offerings that failed in the same fleet are marked
// already, and no plan asks what spot has saved.
func (p *Launched) kept() *Launched {
	c := *p
	c.Unavailable, c.OnDemandPrice = nil, 0
	c.InstanceType, c.Zone, c.CapacityType, c.ImageID = intern.String(p.InstanceType), intern.String(p.Zone), intern.String(p.CapacityType), intern.String(p.ImageID)
	c.Labels, c.Annotations = intern.Map(p.Labels), intern.Map(p.Annotations)
	return &c
}
