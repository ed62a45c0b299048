package provision

import (
	"cmp"
	"slices"

	"millwright/planner/catalog"
	"millwright/planner/requirement"
	"millwright/planner/topology"
)

// keyed are the constraints of a level on one key.
type keyed struct {
	domains     *topology.Domains
	constraints []*topology.Constraint
}

// splitByKey sorts a level's constraints by what they look at.
func (lv *level) splitByKey() {
	lv.byPlace, lv.byKey, lv.alone = nil, nil, nil
	for _, c := range lv.constraints {
		if c.Group.Hostname() {
			lv.byPlace = append(lv.byPlace, c)
			if c.Alone() && !slices.Contains(lv.alone, c.Group) {
				lv.alone = append(lv.alone, c.Group)
			}
			continue
		}
		i := slices.IndexFunc(lv.byKey, func(k keyed) bool { return k.domains == c.Group.Domains })
		if i < 0 {
			i = len(lv.byKey)
			lv.byKey = append(lv.byKey, keyed{domains: c.Group.Domains})
		}
		lv.byKey[i].constraints = append(lv.byKey[i].constraints, c)
	}
}

// candidates calls try with each state that narrows n so that the level's constraints hold, best first,
// until it returns true. types are those that hold the pods. b is nil for a new claim. failed is the first constraint
// that left no domain.
func (s *solver) candidates(n *state, types catalog.Bits, b *bin, lv *level, try func(*state) bool) (done bool, failed *topology.Constraint) {
	if len(lv.byKey) > 0 {
		s.holding = append(s.holding[:0], types...) // try may overwrite types
	}
	return s.narrowKeys(n, b, lv.byKey, try)
}

func (s *solver) narrowKeys(n *state, b *bin, keys []keyed, try func(*state) bool) (bool, *topology.Constraint) {
	if len(keys) == 0 {
		return try(n), nil
	}
	d := keys[0].domains
	mask := n.domains(d)
	possible, one, needed := mask, false, false
	for _, c := range keys[0].constraints {
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
		if isEmpty(possible) {
			return false, c
		}
	}
	if at, single := mask.Single(); single && possible.Has(at) || !one && slices.Equal(mask, possible) {
		if !needed || !n.mayLack(d) {
			return s.narrowKeys(n, b, keys[1:], try)
		}
	}
	var failed *topology.Constraint
	for _, choice := range s.choices(n, d, possible, one, keys[0].constraints) {
		next := n.narrow(choice)
		if next == nil {
			continue
		}
		done, f := s.narrowKeys(next, b, keys[1:], try)
		if done {
			return true, nil
		}
		if failed == nil {
			failed = f
		}
	}
	return false, failed
}

// sharesDomain reports that a pod which c must be near is on this very claim: whatever domain its node gets, they share it. A node without
// the key is in no domain.
func (b *bin) sharesDomain(c *topology.Constraint, mask topology.Mask) bool {
	return b != nil && c.Kind == topology.Affinity && b.uncounted[c.Group] > 0 && !isEmpty(mask)
}

// absentIsFine: a node without the key breaks no anti-affinity.
func absentIsFine(c *topology.Constraint, mask topology.Mask) bool {
	return (c.Kind == topology.AntiAffinity || c.Kind == topology.Inverse) && isEmpty(mask)
}

func isEmpty(m topology.Mask) bool {
	for _, w := range m {
		if w != 0 {
			return false
		}
	}
	return true
}

// choices are the ways to narrow a key: all possible domains together, or one at a time, those with the
// lowest counts first, then the cheapest, then by name.
func (s *solver) choices(n *state, d *topology.Domains, possible topology.Mask, one bool, cs []*topology.Constraint) []*alternative {
	if !one {
		var names []string
		for i := range d.Len() {
			if possible.Has(i) {
				names = append(names, d.Name(i))
			}
		}
		return []*alternative{s.compiler.alternative(requirement.NewSet(requirement.In(d.Key, names...)))}
	}
	at := slices.IndexFunc(cs, func(c *topology.Constraint) bool { return c.Kind == topology.Spread })
	var order []domainChoice
	for i := range d.Len() {
		if possible.Has(i) {
			x := domainChoice{alternative: s.domainAlternative(d, i), price: priceUnknown}
			if at >= 0 {
				x.count = cs[at].Group.Count(i)
			}
			order = append(order, x)
		}
	}
	price := func(x *domainChoice) int64 {
		if x.price == priceUnknown {
			x.price = s.cheapestIn(n.narrow(x.alternative))
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
	list := make([]*alternative, len(ranked))
	for i, x := range ranked {
		list[i] = x.alternative
	}
	return list
}

// domainChoice is one domain that a claim may be narrowed to.
type domainChoice struct {
	alternative *alternative
	count       int32
	// price is what cheapestIn says, priceUnknown until it is asked.
	price int64
}

const priceUnknown = int64(-1)

// cheapestIn is the price of the cheapest offering that the types being held have in a state: 0 if that is free reserved
// capacity, noPrice if there is none.
func (s *solver) cheapestIn(n *state) int64 {
	if n == nil {
		return noPrice
	}
	if s.reserved != nil && slices.ContainsFunc(n.reservations(s.holding), func(key string) bool { return s.reserved.left[key] > 0 }) {
		return 0
	}
	tr := n.tariff()
	for _, i := range tr.order {
		if s.holding.Has(int(i)) {
			return tr.price[i]
		}
	}
	return noPrice
}

// domainAlternative demands one domain; made once.
func (s *solver) domainAlternative(d *topology.Domains, i int) *alternative {
	list := s.single[d]
	if list == nil {
		list = make([]*alternative, d.Len())
		if s.single == nil {
			s.single = map[*topology.Domains][]*alternative{}
		}
		s.single[d] = list
	}
	if list[i] == nil {
		list[i] = s.compiler.alternative(requirement.NewSet(requirement.In(d.Key, d.Name(i))))
	}
	return list[i]
}
