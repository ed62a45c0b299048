package solve

import (
	"slices"

	"millwright/planner/provision/internal/demand"
	"millwright/planner/provision/internal/place"
	"millwright/planner/topology"
)

// A claim takes pods without being assigned a zone, as long as none of them needs one. A pod that must be
// near such pods, or away from them, and that does not fit on the claim itself, has no place until the zone
// is known. Rather than leave it to a round after the launch, the claim is committed to one domain, if that
// gives the pod a place.

// commitsMax bounds how often that is tried in one plan.
const commitsMax = 2000

// commitClaims finds a place for some pod that waits by committing a claim to one domain. It returns the pods
// that still wait.
func (s *Solver) commitClaims(waiting []*Item, m *Mode) (still []*Item, placed bool) {
	asked := map[*SearchClass]bool{}
	for i, it := range waiting {
		if asked[it.Class] {
			continue
		}
		asked[it.Class] = true
		if s.commitFor(it, m) {
			return slices.Delete(waiting, i, i+1), true
		}
	}
	return waiting, false
}

// commitFor commits the first claim that keeps a pod from having a place, in a way that gives the pod a
// place.
func (s *Solver) commitFor(it *Item, m *Mode) bool {
	for _, lv := range it.Class.Levels {
		for _, k := range lv.ByKey {
			for _, c := range k.Constraints {
				if c.Kind == topology.Spread || c.Kind == topology.Affinity && !c.Group.Elusive {
					continue
				}
				if s.commitOne(it, c, m) {
					return true
				}
			}
		}
	}
	return false
}

func (s *Solver) commitOne(it *Item, c *topology.Constraint, m *Mode) bool {
	for b, o := range s.Claims() {
		if !b.Undecided(c) {
			continue
		}
		for _, choice := range s.OneDomainEach(o.State, o.Types, c.Group.Domains, o.State.Domains(c.Group.Domains), nil) {
			if s.commitTo(b, choice, c, it, m) {
				return true
			}
		}
	}
	return false
}

// commitTo narrows b to one domain, and keeps that if it gives the pod a place.
func (s *Solver) commitTo(b *place.Bin, choice *demand.Alternative, c *topology.Constraint, it *Item, m *Mode) bool {
	o := b.Open()
	n := o.State.Narrow(choice)
	if s.commits++; s.commits > commitsMax || n == nil {
		return false
	}
	s.Begin(Unbounded)
	if s.NarrowTo(b, n) {
		b.ForgetOthers(c.Group.Domains)
		s.Settle(b)
		if s.attempt(it, m) {
			s.Commit()
			return true
		}
		it.Class.forgetRefusals()
		it.deferred = false
	}
	s.Revert()
	return false
}
