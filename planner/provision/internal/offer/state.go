package offer

import (
	"slices"

	"millwright/planner/bitset"
	"millwright/planner/catalog"
	"millwright/planner/provision/internal/demand"
	"millwright/planner/requirement"
	"millwright/planner/topology"
)

// State is what claims of one pool with equal requirements share. Accepting a pod moves a claim from one
// state to a narrower one; the moves are remembered, so each is computed once per plan.
type State struct {
	Template *Template
	Offered  *Offered
	Set      requirement.Set
	// Usable: types that may meet set and have an available offering compatible with it.
	Usable bitset.Set
	// Shapes, by number, are compatible with set.
	Shapes []int
	// next by alternative id; refused: nothing can meet both.
	next    map[int]*State
	refused map[int]bool
	// masks are the domains, by key, that claims in this state may have.
	masks map[*topology.Domains]bitset.Set
	// lack remembers mayLack.
	lack map[*topology.Domains]bool
	// prices and ranked are what the types cost, and cost for the template's demand.
	prices *Tariff
	ranked [measures]*ranking
	// openings are the types that hold one pod, by the number of its requests.
	openings []Fit
}

// Fit is a set of types that hold something, and what is known of the set.
type Fit struct {
	Types  bitset.Set
	Extent catalog.Extent
}

// openingsMax bounds what is remembered where all pods are different.
const openingsMax = 1024

// Opening is where it is remembered which types hold one pod with the i-th requests; its Types are nil as
// long as that was not worked out. nil if it is not to be remembered.
func (n *State) Opening(i int) *Fit {
	if i >= openingsMax {
		return nil
	}
	for i >= len(n.openings) {
		n.openings = append(n.openings, Fit{})
	}
	return &n.openings[i]
}

// Offered is what a template offers: the catalogue's offering shapes with what is available, and the states
// computed from them.
type Offered struct {
	Shapes []bitset.Set
	States map[string]*State
}

// State returns the one for a requirement set, of what the template offers now.
func (t *Template) State(set requirement.Set) *State { return t.Offered.state(t, set) }

func (f *Offered) state(t *Template, set requirement.Set) *State {
	key := set.Key()
	if s, ok := f.States[key]; ok {
		return s
	}
	s := &State{Template: t, Offered: f, Set: set, next: map[int]*State{}, refused: map[int]bool{}}
	s.Usable = t.Catalog.Offered(set, f.Shapes, &s.Shapes)
	s.Usable.And(t.Catalog.MatchingSet(set))
	f.States[key] = s
	return s
}

// Narrow returns the state after a pod that demands a; nil if the requirements exclude each other.
// A key that the pool does not define stays undefined, whatever other pods said of it.
func (s *State) Narrow(a *demand.Alternative) *State {
	if n, ok := s.next[a.Id]; ok {
		return n
	}
	if s.refused[a.Id] {
		return nil
	}
	if !s.Template.Base.CompatibleSet(a.Set, requirement.AllKnown) || !s.Set.IntersectsSet(a.Set) {
		s.refused[a.Id] = true
		return nil
	}
	n := s.Offered.state(s.Template, s.Set.Intersection(a.Set))
	s.next[a.Id] = n
	return n
}

// Domains are those a claim in this state may have.
func (n *State) Domains(d *topology.Domains) bitset.Set {
	if m, ok := n.masks[d]; ok {
		return m
	}
	m := d.NewMask()
	t := n.Template
	r, defined := n.Set.Lookup(d.Key)
	known := t.Catalog.Knows(d.Key)
	for i := range d.Len() {
		v := d.Name(i)
		switch {
		case defined && !r.Has(v):
		case known:
			if having := t.Catalog.Having(d.Key, v); having != nil && having.Meets(n.Usable) {
				m.Add(i)
			}
		case defined && !r.Complement() && t.Base.Has(d.Key):
			m.Add(i)
		}
	}
	if n.masks == nil {
		n.masks = map[*topology.Domains]bitset.Set{}
	}
	n.masks[d] = m
	return m
}

// MayLack reports that some nodes of claims in this state would not have the key: of one that the catalogue
// knows, those of types that do not list any value.
func (n *State) MayLack(d *topology.Domains) bool {
	if lack, ok := n.lack[d]; ok {
		return lack
	}
	lack := false
	if c := n.Template.Catalog; c.Knows(d.Key) {
		rest := n.Usable.Clone()
		for _, v := range c.Values(d.Key) {
			rest.Subtract(c.Having(d.Key, v))
		}
		lack = rest.Any()
	}
	if n.lack == nil {
		n.lack = map[*topology.Domains]bool{}
	}
	n.lack[d] = lack
	return lack
}

// Reservations returns those, sorted, that types could use in state n.
func (n *State) Reservations(types bitset.Set) []string {
	var keys []string
	for _, i := range n.Shapes {
		if key := n.Template.Catalog.Shapes[i].Reservation; key != "" && n.Offered.Shapes[i].Meets(types) {
			keys = append(keys, key)
		}
	}
	slices.Sort(keys)
	return slices.Compact(keys)
}
