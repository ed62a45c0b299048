package provision

import (
	"cmp"
	"slices"

	"millwright/planner/catalog"
	"millwright/planner/resource"
)

// A claim may become a node of any of its types, so it is charged for the largest of them: a few claims for small pods can use up a
// limit. Where that leaves pods without a place, claims are built once more sparingly: each is charged for the type that takes the least
// of the limits, and in the end all share what is left and leave out the types that would exceed their part.
//
// With a limit of 20 CPU and types of 2, 4, 8 and 16 CPU, three claims for small pods are charged 2 CPU each; 14 are left. The first
// may have 2 + 14/3 = 6, so it keeps the types of 2 and 4 CPU; the second 2 + 12/2 = 8 and keeps three types, the third 2 + 6 = 8 too.

// spare charges claims of the pools with limits for their least type, as far as that can be done: minValues and reserved capacity
// need all their types.
func (s *solver) spare() (any bool) {
	for _, t := range s.templates {
		if t.limits.bounded() && len(t.minima) == 0 && len(t.catalog.Reservations()) == 0 {
			t.limits.orderByShare(t.catalog)
			any = true
		}
	}
	return any
}

// bounded reports that there is a limit other than of nodes.
func (l *limits) bounded() bool {
	return slices.ContainsFunc(l.left, func(x limit) bool { return x.name != ResourceNodes })
}

// orderByShare sorts the types by the largest share that one takes of a limit, ties by name.
func (l *limits) orderByShare(c *catalog.Catalog) {
	share := make([]int64, len(c.Types))
	l.byShare = make([]int32, len(c.Types))
	for i, it := range c.Types {
		l.byShare[i] = int32(i)
		for _, x := range l.left {
			if x.name != ResourceNodes {
				share[i] = max(share[i], scaled(shareUnit, it.Capacity.Get(x.name), x.total))
			}
		}
	}
	slices.SortFunc(l.byShare, func(a, b int32) int { return cmp.Or(cmp.Compare(share[a], share[b]), cmp.Compare(a, b)) })
}

// sparing reports that claims are charged for their least type.
func (l *limits) sparing() bool { return l.byShare != nil }

// charge is what claims of the types take of the limits for now.
func (l *limits) charge(c *catalog.Catalog, types catalog.Bits) resource.Vector {
	if !l.sparing() {
		return l.capacityMax(c, types)
	}
	var v resource.Vector
	for _, i := range l.byShare {
		if !types.Has(int(i)) {
			continue
		}
		for _, x := range l.left {
			if x.name != ResourceNodes {
				v.Set(x.name, c.Types[i].Capacity.Get(x.name))
			}
		}
		break
	}
	return v
}

// keepWithin keeps in b the types whose capacity is at most what is left and v together.
func (l *limits) keepWithin(c *catalog.Catalog, b catalog.Bits, v *resource.Vector) {
	for _, x := range l.left {
		if x.name == ResourceNodes {
			continue
		}
		most := x.left + v.Get(x.name)
		for i := range b.Members() {
			if c.Types[i].Capacity.Get(x.name) > most {
				b.Remove(i)
			}
		}
	}
}

// shareLimits gives each sparing claim its part of what is left of the limits.
func (s *solver) shareLimits() {
	for _, t := range s.templates {
		if !t.limits.sparing() {
			continue
		}
		var list []*openClaim
		for _, b := range s.bins {
			if b.open != nil && b.open.template == t && !b.gone && len(b.added) > b.before {
				list = append(list, b.open)
			}
		}
		for i, o := range list {
			t.limits.give(t.catalog, o, int64(len(list)-i))
		}
	}
}

// give lets o have one of so many parts of what is left.
func (l *limits) give(c *catalog.Catalog, o *openClaim, parts int64) {
	for _, x := range l.left {
		if x.name == ResourceNodes {
			continue
		}
		most := o.reserved.Get(x.name) + max(0, x.left)/parts
		for i := range o.types.Members() {
			if c.Types[i].Capacity.Get(x.name) > most {
				o.types.Remove(i)
			}
		}
	}
	now := l.capacityMax(c, o.types)
	l.reserve(now.Sub(o.reserved), 0)
	o.reserved = now
}
