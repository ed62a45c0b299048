package pack

import (
	"slices"

	"millwright/planner/provision/internal/place"
	"millwright/planner/provision/internal/solve"
	"millwright/planner/topology"
)

// guard watches one group for the pods that stay where they are while pods that the group counts are
// repacked: each pod that is placed is checked, but one that leaves its domain may break the spread of
// others, or leave behind those that had to be near it.
type guard struct {
	group *topology.Group
	// spreads are the required spread constraints of placed pods, one for each different bound.
	spreads []*topology.Constraint
	dependants
	// try is the last one that touched the group.
	try int
}

// dependants of a group count pods: those that must be spread by it, and followers, which must be where it
// counts one.
type dependants struct{ spread, followers int }

// setGuards makes guards of all groups that placed pods depend on.
func (p *Packer) setGuards() {
	p.guards = map[*topology.Group]*guard{}
	for _, it := range p.Solver.Items {
		if it.Bin == nil {
			continue
		}
		for _, c := range it.Class.Topology.Hard {
			if c.Group.Hostname() || c.Kind != topology.Spread && c.Kind != topology.Affinity {
				continue
			}
			g := p.guards[c.Group]
			if g == nil {
				g = &guard{group: c.Group}
				p.guards[c.Group] = g
			}
			g.countGroup(c.Kind)
			if c.Kind == topology.Spread && !slices.ContainsFunc(g.spreads, c.SameBound) {
				g.spreads = append(g.spreads, c)
			}
		}
	}
}

func (d *dependants) countGroup(k topology.Kind) {
	if k == topology.Affinity {
		d.followers++
	} else {
		d.spread++
	}
}

// guarded is a group before a try.
type guarded struct {
	*guard
	skewExcess int64
	counts     []int32
}

// watch notes the groups that count pods of some claims.
func (p *Packer) watch(group []*place.Bin) (list []guarded) {
	if len(p.guards) == 0 {
		return nil
	}
	p.tries++
	for _, b := range group {
		var last *solve.SearchClass
		for _, it := range p.items[b] {
			if it.Class == last {
				continue
			}
			last = it.Class
			for _, counting := range last.Topology.Counted {
				g := p.guards[counting]
				if g == nil || g.try == p.tries {
					continue
				}
				g.try = p.tries
				w := guarded{guard: g, skewExcess: g.skewExcess(), counts: make([]int32, g.group.Domains.Len())}
				for i := range w.counts {
					w.counts[i] = g.group.Count(i)
				}
				list = append(list, w)
			}
		}
	}
	return list
}

func (g *guard) skewExcess() (sum int64) {
	for _, c := range g.spreads {
		sum += c.SkewExcess()
	}
	return sum
}

// preservesOthers reports that the repacking breaks nothing for the pods that stayed.
func (p *Packer) preservesOthers(r *repacking) bool {
	var moved map[*topology.Group]*dependants
	stay := func(g *guard) dependants {
		if moved == nil {
			moved = p.dependantsOf(r.waiting)
		}
		d := g.dependants
		if m := moved[g.group]; m != nil {
			d.spread, d.followers = d.spread-m.spread, d.followers-m.followers
		}
		return d
	}
	for _, w := range r.watched {
		if w.guard.skewExcess() > w.skewExcess && stay(w.guard).spread > 0 {
			return false
		}
		if w.followers == 0 {
			continue
		}
		for i, n := range w.counts {
			if n > 0 && w.group.Count(i) == 0 && stay(w.guard).followers > 0 {
				return false
			}
		}
	}
	return true
}

// dependantsOf counts, by group, the pods that depend on one.
func (p *Packer) dependantsOf(waiting []movingItem) map[*topology.Group]*dependants {
	counts := map[*topology.Group]*dependants{}
	for _, w := range waiting {
		for _, c := range w.Class.Topology.Hard {
			if p.guards[c.Group] == nil || c.Kind != topology.Spread && c.Kind != topology.Affinity {
				continue
			}
			d := counts[c.Group]
			if d == nil {
				d = &dependants{}
				counts[c.Group] = d
			}
			d.countGroup(c.Kind)
		}
	}
	return counts
}
