package solve

import (
	corev1 "k8s.io/api/core/v1"

	"millwright/planner/bitset"
	"millwright/planner/ledger"
	"millwright/planner/provision/internal/offer"
	"millwright/planner/provision/internal/place"
	"millwright/planner/requirement"
)

// Resume returns an open claim that continues a planned one, without pods: with its requirements, and those
// of its types that are available now. nil if its NodePool would no longer make it.
func (s *Solver) Resume(c *ledger.PlannedClaim) *place.OpenClaim {
	t := s.templateOf(c)
	if t == nil {
		return nil
	}
	set, _ := requirement.FromClaim(c.Requirements) // restricted labels among them: they are our own
	set = set.Without(corev1.LabelInstanceTypeStable).Intersection(t.Base)
	if set.Impossible() {
		return nil
	}
	n := t.State(set)
	types := bitset.New(len(t.Catalog.Types))
	for _, name := range c.InstanceTypes {
		if it := t.Catalog.Type(name); it != nil {
			types.Add(it.Index)
		}
	}
	types.And(n.Usable)
	o := &place.OpenClaim{Template: t, State: n, Types: types}
	var ok bool
	if o.Minima, o.Relaxed, ok = s.MinimaFor(t, n, types); !ok || !types.Any() {
		return nil
	}
	o.Largest = o.LargestGrowth()
	o.Room = o.Largest
	return o
}

// templateOf is the NodePool of a planned claim if it is unchanged; nil otherwise.
func (s *Solver) templateOf(c *ledger.PlannedClaim) *offer.Template {
	for _, t := range s.Templates {
		if t.Name == c.NodePool {
			if t.Pool.UID != c.NodePoolUID || *t.Pool.Spec.Template.Spec.NodeClassRef != c.NodeClassRef || !t.HasMade(c.Annotations) {
				return nil
			}
			return t
		}
	}
	return nil
}

// CloseReopened turns reopened claims that took nothing into planned claims again.
func (s *Solver) CloseReopened() {
	for _, b := range s.Bins {
		if o := b.Open(); o != nil && o.Earlier != nil && len(b.Added) == o.Before {
			b.Place = o.Earlier
		}
	}
}

// Reopen turns the planned claims that may be widened into open ones, and returns those that are, by name.
func (s *Solver) Reopen() []*place.Bin {
	var list []*place.Bin
	own := map[*place.Bin][]*Item{}
	for _, it := range s.Items {
		if it.Bin != nil && it.Bin.Planned() != nil {
			own[it.Bin] = append(own[it.Bin], it)
		}
	}
	for _, b := range s.Bins {
		if c := b.Planned(); c != nil && c.Uncreated && len(c.Claim.Earlier) < widenedMax {
			s.ReopenOne(b, own[b], c.Claim.Planned)
		}
		if o := b.Open(); o != nil && o.Earlier != nil {
			list = append(list, b)
		}
	}
	return list
}

// ReopenOne lets a planned claim continue from content, with the pods that are its own.
func (s *Solver) ReopenOne(b *place.Bin, own []*Item, content *ledger.PlannedClaim) {
	o := s.Resume(content)
	if o == nil || len(o.State.Reservations(o.Types)) > 0 {
		return // reserved capacity is held by claims, not by pods
	}
	planned := b.Planned()
	o.Reserved = planned.Claim.Capacity
	for _, it := range own {
		o.Used = o.Used.Add(it.Class.Requests)
	}
	types, fits := s.Fits(o, o.State, &o.Used, b.Ports)
	if !fits {
		return
	}
	copy(o.Types, types)
	if o.Cheapest() == offer.NoPrice {
		return
	}
	o.Largest = o.LargestGrowth()
	o.Room = o.Largest.Sub(o.Used)
	o.Earlier, o.Before = planned, len(b.Added)
	b.Place = o
}

// widenedMax is how often a claim is widened at most: the Ledger keeps what was planned before.
const widenedMax = 8
