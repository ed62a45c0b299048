package provision

import (
	"millwright/planner/catalog"
	"millwright/planner/requirement"
	"millwright/planner/topology"
)

// state is what claims of one pool with equal requirements share. Accepting a pod moves a claim from one
// state to a narrower one; the moves are remembered, so each is computed once per plan.
type state struct {
	template *template
	offered  *offered
	set      requirement.Set
	// usable: types that may meet set and have an available offering compatible with it.
	usable catalog.Bits
	// shapes, by number, are compatible with set.
	shapes []int
	// next by alternative id; refused: nothing can meet both.
	next    map[int]*state
	refused map[int]bool
	// masks are the domains, by key, that claims in this state may have.
	masks map[*topology.Domains]topology.Mask
	// lack remembers mayLack.
	lack map[*topology.Domains]bool
	// prices and ranked are what the types cost, and cost for the template's demand.
	prices *tariff
	ranked [measures]*ranking
	units  map[sharing][]unitCost
}

// offered is what a template offers: the catalogue's offering shapes with what is available, and the states
// computed from them.
type offered struct {
	shapes []catalog.Bits
	states map[string]*state
}

// state returns the one for a requirement set, of what the template offers now.
func (t *template) state(set requirement.Set) *state { return t.offered.state(t, set) }

func (f *offered) state(t *template, set requirement.Set) *state {
	key := set.Key()
	if s, ok := f.states[key]; ok {
		return s
	}
	s := &state{template: t, offered: f, set: set, next: map[int]*state{}, refused: map[int]bool{}}
	s.usable = t.catalog.Offered(set, f.shapes, &s.shapes)
	s.usable.And(t.catalog.MatchingSet(set))
	f.states[key] = s
	return s
}

// narrow returns the state after a pod that demands a; nil if the requirements exclude each other.
// A key that the pool does not define stays undefined, whatever other pods said of it.
func (s *state) narrow(a *alternative) *state {
	if n, ok := s.next[a.id]; ok {
		return n
	}
	if s.refused[a.id] {
		return nil
	}
	if !s.template.base.CompatibleSet(a.set, requirement.AllKnown) || !s.set.IntersectsSet(a.set) {
		s.refused[a.id] = true
		return nil
	}
	n := s.offered.state(s.template, s.set.Intersection(a.set))
	s.next[a.id] = n
	return n
}
