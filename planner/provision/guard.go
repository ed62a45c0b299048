package provision

import (
	"slices"

	"millwright/planner/topology"
)

// guard watches one group for the pods that stay where they are while pods that the group counts are packed anew: each
// pod that is placed is checked, but one that leaves its domain may break the spread of others, or leave behind those
// that had to be near it.
type guard struct {
	group *topology.Group
	// spreads are the required spread constraints of placed pods, one for each different bound.
	spreads []*topology.Constraint
	// followers are the placed pods that must be where the group counts one.
	followers int
	// try is the last one that touched the group.
	try int
}

// setGuards makes guards of all groups that placed pods depend on.
func (p *packer) setGuards() {
	p.guards = map[*topology.Group]*guard{}
	for _, it := range p.solver.items {
		if it.bin == nil {
			continue
		}
		for _, c := range it.class.topology.hard {
			if c.Group.Hostname() || c.Kind != topology.Spread && c.Kind != topology.Affinity {
				continue
			}
			g := p.guards[c.Group]
			if g == nil {
				g = &guard{group: c.Group}
				p.guards[c.Group] = g
			}
			switch {
			case c.Kind == topology.Affinity:
				g.followers++
			case !slices.ContainsFunc(g.spreads, c.SameBound):
				g.spreads = append(g.spreads, c)
			}
		}
	}
}

// guarded is a group before a try.
type guarded struct {
	*guard
	strain int64
	counts []int32
}

// watch notes the groups that count pods of some claims.
func (p *packer) watch(group []*bin) (list []guarded) {
	if len(p.guards) == 0 {
		return nil
	}
	p.tries++
	for _, b := range group {
		var last *class
		for _, it := range p.items[b] {
			if it.class == last {
				continue
			}
			last = it.class
			for _, counting := range last.topology.counted {
				g := p.guards[counting]
				if g == nil || g.try == p.tries {
					continue
				}
				g.try = p.tries
				w := guarded{guard: g, strain: g.strain(), counts: make([]int32, g.group.Domains.Len())}
				for i := range w.counts {
					w.counts[i] = g.group.Count(i)
				}
				list = append(list, w)
			}
		}
	}
	return list
}

func (g *guard) strain() (sum int64) {
	for _, c := range g.spreads {
		sum += c.Strain()
	}
	return sum
}

// spared reports that what was packed anew breaks nothing for the pods that stayed.
func (p *packer) spared(list []guarded, waiting []was) bool {
	for _, w := range list {
		if w.guard.strain() > w.strain {
			return false
		}
		if w.followers == 0 || w.followers == followersOf(w.group, waiting) {
			continue
		}
		for i, n := range w.counts {
			if n > 0 && w.group.Count(i) == 0 {
				return false
			}
		}
	}
	return true
}

func followersOf(g *topology.Group, waiting []was) (n int) {
	for _, w := range waiting {
		for _, c := range w.class.topology.hard {
			if c.Kind == topology.Affinity && c.Group == g {
				n++
			}
		}
	}
	return n
}
