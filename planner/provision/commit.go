package provision

import (
	"slices"

	"millwright/planner/topology"
)

// A claim takes pods without being told its zone, as long as none of them asks for one. A pod that must be near such pods, or away from
// them, and that does not fit on the claim itself, has no place until the zone is known. Rather than leave it to a round after the launch,
// the claim is committed to one domain, if that gives the pod a place.

// commitsMax bounds how often that is tried in one plan.
const commitsMax = 2000

// commit finds a place for some pod that waits by committing a claim to one domain. It returns the pods that still wait.
func (s *solver) commit(waiting []*item) (still []*item, placed bool) {
	asked := map[*class]bool{}
	for i, it := range waiting {
		if asked[it.class] {
			continue
		}
		asked[it.class] = true
		if s.commitFor(it) {
			return slices.Delete(waiting, i, i+1), true
		}
	}
	return waiting, false
}

// commitFor commits the first claim that stands in the way of a pod, in a way that gives the pod a place.
func (s *solver) commitFor(it *item) bool {
	for _, lv := range it.class.levels {
		for _, k := range lv.byKey {
			for _, c := range k.constraints {
				if c.Kind == topology.Spread || c.Kind == topology.Affinity && !c.Group.Elusive {
					continue
				}
				if s.commitOne(it, c) {
					return true
				}
			}
		}
	}
	return false
}

func (s *solver) commitOne(it *item, c *topology.Constraint) bool {
	for _, b := range s.bins {
		if b.open == nil || b.gone || !b.undecided(c) {
			continue
		}
		s.holding = append(s.holding[:0], b.open.types...)
		for _, choice := range s.choices(b.open.state, c.Group.Domains, b.open.state.domains(c.Group.Domains), true, nil) {
			if s.commitTo(b, choice, c, it) {
				return true
			}
		}
	}
	return false
}

// undecided reports that the claim has pods that c is about, and may still become a node of several domains.
func (b *bin) undecided(c *topology.Constraint) bool {
	if _, single := b.open.state.domains(c.Group.Domains).Single(); single {
		return false
	}
	if c.Kind == topology.Affinity {
		return b.uncounted[c.Group] > 0
	}
	return slices.ContainsFunc(b.records, func(r counted) bool { return r.group == c.Group })
}

// commitTo narrows b to one domain, and leaves it so if that gives the pod a place.
func (s *solver) commitTo(b *bin, choice *alternative, c *topology.Constraint, it *item) bool {
	o := b.open
	n := o.state.narrow(choice)
	if s.commits++; s.commits > commitsMax || n == nil || !s.fits(o, n, &o.used, b.ports) {
		return false
	}
	holds, ok := s.holdable(n, s.buffer[:len(o.types)], o.holds)
	if s.missed(); !ok {
		return false
	}
	s.touch(b)
	saved, records := b.save(), slices.Clone(b.records)
	s.hold(o, holds)
	o.state = n
	o.keep(s.buffer[:len(o.types)])
	b.forgetOthers(c.Group.Domains)
	s.settle(b)
	if s.attempt(it) {
		return true
	}
	s.hold(o, saved.open.holds)
	b.uncount()
	b.records = nil
	saved.records = 0
	s.restore(b, saved)
	b.records = records
	b.recount()
	it.class.forgetRefusals()
	it.deferred = false
	return false
}

// forgetOthers takes back what the claim's pods count in domains it can't be in any more.
func (b *bin) forgetOthers(d *topology.Domains) {
	mask := b.open.state.domains(d)
	b.records = slices.DeleteFunc(b.records, func(r counted) bool {
		gone := r.group.Domains == d && r.group.Possible() && !mask.Has(r.at)
		if gone {
			r.group.Record(r.at, -r.n)
		}
		return gone
	})
}

// forgetRefusals has the pods of the class ask everywhere again.
func (c *class) forgetRefusals() {
	*c.full = nil
	for _, lv := range c.levels {
		lv.cursor, lv.dead = 0, nil
		lv.refusedAt, lv.deferredAt = -1, -1
	}
}
