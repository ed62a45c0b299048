package place

import (
	"slices"

	"millwright/planner/bitset"
	"millwright/planner/catalog"
	"millwright/planner/ledger"
	"millwright/planner/provision/internal/offer"
	"millwright/planner/requirement"
)

// probes sees to it that of the claims which rely on unproven offerings alone, one at a time tries each: the
// others would most likely fail with it, and be made again after the next mark.
//
// Type a is unproven in zones 1 and 2, b is not. Claims are opened for pods that demand
//
//	a or b         as many as needed: each of them can be had as b
//	a              one: it takes a in both zones; a second one is refused
//	a in zone 1    none: it is taken
//
// In the next round the claim is planned and still takes both, until its launch succeeds and proves a zone,
// or fails and has them marked for longer.
type probes struct {
	// templates with the same catalogue have the same place in taken.
	place []int
	// taken types, by place and shape. The inner lists are replaced, never changed.
	taken [][]bitset.Set
}

// newProbes finds what planned claims try; nil if no template has an unproven offering.
func newProbes(templates []*offer.Template, in *Input) *probes {
	if !slices.ContainsFunc(templates, func(t *offer.Template) bool { return t.Proven != nil }) {
		return nil
	}
	tried := triedBy(in)
	p := &probes{}
	for i, t := range templates {
		same := slices.IndexFunc(templates[:i], func(o *offer.Template) bool { return o.Catalog == t.Catalog })
		if same >= 0 {
			p.place = append(p.place, p.place[same])
			continue
		}
		p.place = append(p.place, len(p.taken))
		taken := make([]bitset.Set, len(t.Catalog.Shapes))
		for s := range taken {
			taken[s] = bitset.New(len(t.Catalog.Types))
			for at := range t.Offered.Shapes[s].Members() {
				if tried[keyOf(t.Catalog, s, at)] {
					taken[s].Add(at)
				}
			}
		}
		p.taken = append(p.taken, taken)
	}
	return p
}

func keyOf(c *catalog.Catalog, shape, at int) ledger.OfferingKey {
	s := &c.Shapes[shape]
	return ledger.OfferingKey{InstanceType: c.Types[at].Name, Zone: s.Zone, CapacityType: s.CapacityType, PlacementGroup: s.Group}
}

// triedBy collects what the claims try that are planned, have no instance yet and can have nothing else.
func triedBy(in *Input) map[ledger.OfferingKey]bool {
	type offered struct{ available, proven []bitset.Set }
	type where struct {
		catalog   *catalog.Catalog
		nodeClass string
	}
	known := map[where]*offered{}
	tried := map[ledger.OfferingKey]bool{}
	for i := range in.Planned {
		c := in.Planned[i].Claim
		if c.Instance != nil || c.Doomed != nil {
			continue
		}
		cat := in.Planned[i].Catalog
		at := where{cat, c.Planned.NodeClassRef.Name}
		o := known[at]
		if o == nil {
			o = &offered{}
			o.available, o.proven = in.OfferedBy(cat, at.nodeClass)
			known[at] = o
		}
		if o.proven == nil {
			continue
		}
		set, _ := requirement.FromClaim(c.Planned.Requirements)
		types := typesOf(cat, c.Planned, set)
		var shapes []int
		cat.Offered(set, o.available, &shapes)
		if slices.ContainsFunc(shapes, func(s int) bool { return o.proven[s].Meets(types) }) {
			continue
		}
		for _, s := range shapes {
			for at := range o.available[s].Members() {
				if types.Has(at) {
					tried[keyOf(cat, s, at)] = true
				}
			}
		}
	}
	return tried
}

// typesOf are the types that a planned claim may become; of a static NodePool's all that its template allows.
func typesOf(cat *catalog.Catalog, p *ledger.PlannedClaim, set requirement.Set) bitset.Set {
	if len(p.InstanceTypes) == 0 {
		return cat.MatchingSet(set)
	}
	types := bitset.New(len(cat.Types))
	for _, name := range p.InstanceTypes {
		if t := cat.Type(name); t != nil {
			types.Add(t.Index)
		}
	}
	return types
}

// admit returns what a claim with types in state n would try, given what it tries already: nil if it can have
// something else. ok is false if others try all that it could have.
func (p *probes) admit(n *offer.State, types bitset.Set, already []bitset.Set) (tries []bitset.Set, ok bool) {
	if p == nil || !n.Probes(types) {
		return nil, true
	}
	if already != nil {
		return already, slices.ContainsFunc(n.Shapes, func(s int) bool { return already[s].MeetsWithin(types, n.Offered.Shapes[s]) })
	}
	tries = make([]bitset.Set, len(n.Offered.Shapes))
	taken := p.taken[p.place[n.Template.Index]]
	for s := range tries {
		tries[s] = make(bitset.Set, len(types))
	}
	for _, s := range n.Shapes {
		copy(tries[s], n.Offered.Shapes[s])
		tries[s].And(types)
		tries[s].Subtract(taken[s])
		ok = ok || tries[s].Any()
	}
	return tries, ok
}

// take notes what the claim, now in state n, tries.
func (p *probes) take(o *OpenClaim, n *offer.State, tries []bitset.Set) {
	if p == nil || tries == nil || o.Probes != nil {
		return
	}
	o.Probes = tries
	at := p.place[n.Template.Index]
	taken := slices.Clone(p.taken[at])
	for s := range taken {
		if tries[s].Any() {
			taken[s] = taken[s].Clone()
			taken[s].Or(tries[s])
		}
	}
	p.taken[at] = taken
}

// Tried reports that types in state n could only be had from unproven offerings that other claims try.
func Tried(l *Layout, n *offer.State, types bitset.Set) bool {
	_, ok := l.probes.admit(n, types, nil)
	return !ok
}
