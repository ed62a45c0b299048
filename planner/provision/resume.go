package provision

import (
	corev1 "k8s.io/api/core/v1"

	"millwright/planner/catalog"
	"millwright/planner/ledger"
	"millwright/planner/requirement"
)

// resume returns an open claim that goes on where a planned one stands, without pods: of its requirements, and of those of its types
// that can be had now. nil if its NodePool would not make it any more.
func (s *solver) resume(c *ledger.PlannedClaim) *openClaim {
	t := s.templateOf(c)
	if t == nil {
		return nil
	}
	set, _ := requirement.FromClaim(c.Requirements) // restricted labels among them: they are our own
	set = set.Without(corev1.LabelInstanceTypeStable).Intersection(t.base)
	if set.Impossible() {
		return nil
	}
	n := t.state(set)
	types := catalog.NewBits(len(t.catalog.Types))
	for _, name := range c.InstanceTypes {
		if it := t.catalog.Type(name); it != nil {
			types.Add(it.Index)
		}
	}
	types.And(n.usable)
	o := &openClaim{template: t, state: n, types: types}
	var ok bool
	if o.minima, o.relaxed, ok = s.minimaFor(t, n, types); !ok || !types.Any() {
		return nil
	}
	o.largest = o.largestGrowth()
	o.room = o.largest
	return o
}

// templateOf is the NodePool of a planned claim if it still says the same; nil otherwise.
func (s *solver) templateOf(c *ledger.PlannedClaim) *template {
	for _, t := range s.templates {
		if t.name == c.NodePool {
			if t.pool.UID != c.NodePoolUID || *t.pool.Spec.Template.Spec.NodeClassRef != c.NodeClassRef || !t.hasMade(c.Annotations) {
				return nil
			}
			return t
		}
	}
	return nil
}
