package place

import (
	"cmp"
	"slices"

	"millwright/planner/bitset"
	"millwright/planner/provision/internal/demand"
	"millwright/planner/provision/internal/offer"
	"millwright/planner/requirement"
	"millwright/planner/topology"
)

// Candidates calls try with each state that narrows n so that the level's constraints hold, best first, until
// it returns true. types are those that hold the pods. b is nil for a new claim. failed is the first
// constraint that left no domain.
func (l *Layout) Candidates(n *offer.State, types bitset.Set, b *Bin, lv *demand.Level, try func(*offer.State) bool) (done bool, failed *topology.Constraint) {
	if len(lv.ByKey) > 0 {
		l.holding = append(l.holding[:0], types...) // try may overwrite types
		types = l.holding
	}
	return l.narrowKeys(n, types, b, lv.ByKey, try)
}

func (l *Layout) narrowKeys(n *offer.State, types bitset.Set, b *Bin, keys []demand.Keyed, try func(*offer.State) bool) (bool, *topology.Constraint) {
	if len(keys) == 0 {
		return try(n), nil
	}
	d := keys[0].Domains
	mask := n.Domains(d)
	possible, one, needed := mask, false, false
	for _, c := range keys[0].Constraints {
		needed = needed || c.NeedsDomain()
		if b.sharesDomain(c, mask) {
			continue
		}
		if absentIsFine(c, mask) {
			continue
		}
		allowed, single := c.Allowed()
		possible = possible.Clone()
		possible.And(allowed)
		one = one || single
		if !possible.Any() {
			return false, c
		}
	}
	if at, single := mask.Single(); single && possible.Has(at) || !one && slices.Equal(mask, possible) {
		if !needed || !n.MayLack(d) {
			return l.narrowKeys(n, types, b, keys[1:], try)
		}
	}
	var failed *topology.Constraint
	choices := []*demand.Alternative{l.anyDomainOf(d, possible)}
	if one {
		choices = l.OneDomainEach(n, types, d, possible, keys[0].Constraints)
	}
	for _, choice := range choices {
		next := n.Narrow(choice)
		if next == nil {
			continue
		}
		done, f := l.narrowKeys(next, types, b, keys[1:], try)
		if done {
			return true, nil
		}
		if failed == nil {
			failed = f
		}
	}
	return false, failed
}

// sharesDomain reports that a pod which c must be near is on this very claim: whatever domain its node gets,
// they share it. A node without the key is in no domain.
func (b *Bin) sharesDomain(c *topology.Constraint, mask bitset.Set) bool {
	return b != nil && c.Kind == topology.Affinity && b.uncounted[c.Group] > 0 && mask.Any()
}

// absentIsFine: a node without the key breaks no anti-affinity.
func absentIsFine(c *topology.Constraint, mask bitset.Set) bool {
	return (c.Kind == topology.AntiAffinity || c.Kind == topology.Inverse) && !mask.Any()
}

// anyDomainOf narrows a key to all possible domains together.
func (l *Layout) anyDomainOf(d *topology.Domains, possible bitset.Set) *demand.Alternative {
	var names []string
	for i := range d.Len() {
		if possible.Has(i) {
			names = append(names, d.Name(i))
		}
	}
	return l.Compiler.Alternative(requirement.NewSet(requirement.In(d.Key, names...)))
}

// OneDomainEach are the ways to narrow a key to one of the possible domains: those with the lowest counts of
// the spread among cs first, then the cheapest for types, then by name.
func (l *Layout) OneDomainEach(n *offer.State, types bitset.Set, d *topology.Domains, possible bitset.Set, cs []*topology.Constraint) []*demand.Alternative {
	at := slices.IndexFunc(cs, func(c *topology.Constraint) bool { return c.Kind == topology.Spread })
	var order []domainChoice
	for i := range d.Len() {
		if possible.Has(i) {
			x := domainChoice{alternative: l.domainAlternative(d, i), price: priceUnknown}
			if at >= 0 {
				x.count = cs[at].Group.Count(i)
			}
			order = append(order, x)
		}
	}
	price := func(x *domainChoice) int64 {
		if x.price == priceUnknown {
			x.price = l.cheapestIn(n.Narrow(x.alternative), types)
		}
		return x.price
	}
	best := func(a, b *domainChoice) int {
		if c := cmp.Compare(a.count, b.count); c != 0 {
			return c
		}
		return cmp.Compare(price(a), price(b))
	}
	ranked := make([]*domainChoice, len(order))
	for i := range order {
		ranked[i] = &order[i]
	}
	slices.SortStableFunc(ranked, best)
	list := make([]*demand.Alternative, len(ranked))
	for i, x := range ranked {
		list[i] = x.alternative
	}
	return list
}

// domainChoice is one domain that a claim may be narrowed to.
type domainChoice struct {
	alternative *demand.Alternative
	count       int32
	// price caches cheapestIn, priceUnknown until then.
	price int64
}

const priceUnknown = int64(-1)

// cheapestIn is the price of the cheapest offering that the types have in a state: 0 if that is free reserved
// capacity, noPrice if there is none.
func (l *Layout) cheapestIn(n *offer.State, types bitset.Set) int64 {
	if n == nil {
		return offer.NoPrice
	}
	if l.Reserved != nil && slices.ContainsFunc(n.Reservations(types), func(key string) bool { return l.Reserved.left[key] > 0 }) {
		return 0
	}
	tr := n.Tariff()
	for _, i := range tr.Order {
		if types.Has(int(i)) {
			return tr.Price[i]
		}
	}
	return offer.NoPrice
}

// domainAlternative demands one domain; made once.
func (l *Layout) domainAlternative(d *topology.Domains, i int) *demand.Alternative {
	list := l.single[d]
	if list == nil {
		list = make([]*demand.Alternative, d.Len())
		if l.single == nil {
			l.single = map[*topology.Domains][]*demand.Alternative{}
		}
		l.single[d] = list
	}
	if list[i] == nil {
		list[i] = l.Compiler.Alternative(requirement.NewSet(requirement.In(d.Key, d.Name(i))))
	}
	return list[i]
}
