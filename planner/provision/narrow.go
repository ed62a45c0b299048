package provision

import (
	"slices"

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
	lv.byPlace, lv.byKey = nil, nil
	for _, c := range lv.constraints {
		if c.Group.Hostname() {
			lv.byPlace = append(lv.byPlace, c)
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
// until it returns true. b is nil for a new claim. failed is the first constraint that left no domain.
func (s *solver) candidates(n *state, b *bin, lv *level, try func(*state) bool) (done bool, failed *topology.Constraint) {
	return s.narrowKeys(n, b, lv.byKey, try)
}

func (s *solver) narrowKeys(n *state, b *bin, keys []keyed, try func(*state) bool) (bool, *topology.Constraint) {
	if len(keys) == 0 {
		return try(n), nil
	}
	d := keys[0].domains
	mask := n.domains(d)
	possible, one := mask, false
	for _, c := range keys[0].constraints {
		if b != nil && c.Kind == topology.Affinity && b.uncounted[c.Group] > 0 {
			continue // such a pod is on this very claim: they share every domain
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
		return s.narrowKeys(n, b, keys[1:], try)
	}
	var failed *topology.Constraint
	for _, choice := range s.choices(d, possible, one, keys[0].constraints) {
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
// lowest counts first, then by name.
func (s *solver) choices(d *topology.Domains, possible topology.Mask, one bool, cs []*topology.Constraint) []*alternative {
	if !one {
		var names []string
		for i := range d.Len() {
			if possible.Has(i) {
				names = append(names, d.Name(i))
			}
		}
		return []*alternative{s.compiler.alternative(requirement.NewSet(requirement.In(d.Key, names...)))}
	}
	var order []int
	for i := range d.Len() {
		if possible.Has(i) {
			order = append(order, i)
		}
	}
	if at := slices.IndexFunc(cs, func(c *topology.Constraint) bool { return c.Kind == topology.Spread }); at >= 0 {
		g := cs[at].Group
		slices.SortStableFunc(order, func(a, b int) int { return int(g.Count(a)) - int(g.Count(b)) })
	}
	list := make([]*alternative, len(order))
	for i, x := range order {
		list[i] = s.domainAlternative(d, x)
	}
	return list
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
