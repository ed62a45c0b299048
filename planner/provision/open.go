package provision

import (
	"slices"

	"millwright/planner/catalog"
	"millwright/planner/resource"
)

// openClaim is a claim being built.
type openClaim struct {
	template *template
	state    *state
	// types can hold the pods so far and have an offering.
	types catalog.Bits
	// used sums the pods' requests, without DaemonSets.
	used   resource.Vector
	minima []minimum
	// relaxed: BestEffort lowered a minimum.
	relaxed bool
	// reserved is what the claim takes of its pool's limits.
	reserved resource.Vector
	// holds are the reservations of which the claim has one instance each, sorted.
	holds []string
	// largest is the per-resource maximum of the types; room, less what is used, bounds one more pod.
	// growth: the claim takes pods as long as one of these holds them all; nil: any type.
	growth        catalog.Bits
	largest, room resource.Vector
	// tariff by which the price was asked last: the types before at in its order are gone.
	tariff *tariff
	at     int
}

func (s *solver) acceptOpen(b *bin, lv *level) outcome {
	c, o := lv.class, b.open
	t := o.template
	if !c.requests.Fits(o.room) {
		return full
	}
	if untolerated(t.taints(), c.pod.Spec.Tolerations, lv.strictTaints) != nil {
		return never
	}
	if len(c.ports) > 0 && clash(c.ports, b.ports) {
		return never
	}
	if len(lv.byKey) > 0 && b.elsewhere(lv) {
		return notNow
	}
	s.steps += stepsWhole - 1
	total := o.used.Add(c.requests)
	ports := c.ports
	if len(b.ports) > 0 {
		ports = slices.Concat(b.ports, c.ports)
	}
	result := never
	if t.limits.sparing() {
		result = notNow // other claims may give back what the limits lack
	}
	for _, a := range lv.alternatives {
		n := o.state.narrow(a)
		if n == nil || !n.usable.Meets(o.types) {
			continue
		}
		if !s.fits(o, n, &total, ports) {
			continue
		}
		result = notNow
		done, _ := s.candidates(n, s.buffer[:len(o.types)], b, lv, func(n *state) bool {
			if !n.usable.Meets(o.types) || !s.fits(o, n, &total, ports) {
				return false
			}
			holds, ok := s.holdable(n, s.buffer[:len(o.types)], o.holds)
			if !ok {
				return false
			}
			s.touch(b)
			s.hold(o, holds)
			o.state, o.used, b.ports = n, total, ports
			o.keep(s.buffer[:len(o.types)])
			return true
		})
		if done {
			s.settle(b)
			return accepted
		}
	}
	return result
}

// elsewhere reports, at a glance, that the pod must go to another domain now than the claim is in.
func (b *bin) elsewhere(lv *level) bool {
	for i := range lv.byKey {
		mask := b.open.state.domains(lv.byKey[i].domains)
		for _, c := range lv.byKey[i].constraints {
			if b.sharesDomain(c, mask) || absentIsFine(c, mask) {
				continue
			}
			if allowed, _ := c.Allowed(); !allowed.Meets(mask) {
				return true
			}
		}
	}
	return false
}

// fits reports that the claim in state n has types for total; they are in the buffer then.
func (s *solver) fits(o *openClaim, n *state, total *resource.Vector, ports []hostPort) bool {
	types := s.fitting(o.template, o.types, n, total, ports)
	if l := &o.template.limits; l.sparing() {
		l.keepWithin(o.template.catalog, types, &o.reserved)
	}
	return types.Any() && (o.growth == nil || types.Meets(o.growth)) && len(o.template.unmet(n.set, types, o.minima)) == 0
}

// keep narrows the claim to types and gives back what it no longer takes of the limits.
func (o *openClaim) keep(types catalog.Bits) {
	t := o.template
	if !types.Equal(o.types) {
		copy(o.types, types)
		o.largest = o.largestGrowth()
		if len(t.limits.left) > 0 {
			now := t.limits.charge(t.catalog, o.types)
			t.limits.reserve(now.Sub(o.reserved), 0)
			o.reserved = now
		}
	}
	o.room = o.largest.Sub(o.used)
}

// largestGrowth is the per-resource maximum of the allocatable of the types the claim may grow to, as far as pods request it.
func (o *openClaim) largestGrowth() resource.Vector {
	return o.template.catalog.Largest(o.types, o.growth, o.template.extended)
}

// fitting returns, valid until the next call, the types of n among from that hold total and the DaemonSets
// that run on them, whose host ports do not clash with the pods'.
func (s *solver) fitting(t *template, from catalog.Bits, n *state, total *resource.Vector, ports []hostPort) catalog.Bits {
	out, part := s.scratch(len(from))
	for i := range t.groups {
		g := &t.groups[i]
		if len(ports) > 0 && clash(ports, g.ports) {
			continue
		}
		for w := range part {
			part[w] = from[w] & n.usable[w] & g.types[w]
		}
		need := total.Add(g.overhead)
		t.catalog.Narrow(part, &need)
		out.Or(part)
	}
	return out
}

// scratch returns two buffers of n words, the first cleared.
func (s *solver) scratch(n int) (out, part catalog.Bits) {
	if len(s.buffer) < 2*n {
		s.buffer = make(catalog.Bits, 2*n)
	}
	clear(s.buffer[:n])
	return s.buffer[:n], s.buffer[n : 2*n]
}

// openIn returns a claim in state n with one pod of the class, within the limits; nil if there is none.
func (s *solver) openIn(t *template, c *class, n *state) *openClaim {
	fit := s.fitting(t, t.root.usable, n, &c.requests, c.ports)
	if !fit.Any() {
		return nil
	}
	o := s.newOpen()
	held := append(o.types[:0], fit...)
	if t.limits.narrow(t.catalog, held) != nil {
		return nil
	}
	minima, relaxed, ok := s.minimaFor(t, n, held)
	if !ok {
		return nil
	}
	holds, ok := s.holdable(n, held, nil)
	if !ok {
		return nil
	}
	*o = openClaim{template: t, state: n, types: held, used: c.requests, minima: minima, relaxed: relaxed, growth: s.ceiling.growth(c, n, held)}
	o.largest = o.largestGrowth()
	o.room = o.largest.Sub(o.used)
	s.hold(o, holds)
	if len(t.limits.left) > 0 {
		o.reserved = t.limits.charge(t.catalog, held)
		t.limits.reserve(o.reserved, 1)
	}
	return o
}

// minimaFor returns the minima a new claim must keep: the pool's, or under BestEffort what is reached.
func (s *solver) minimaFor(t *template, n *state, types catalog.Bits) (minima []minimum, relaxed, ok bool) {
	if len(t.unmet(n.set, types, t.minima)) == 0 {
		return t.minima, false, true
	}
	if s.in.options.MinValuesPolicy != MinValuesBestEffort {
		return nil, false, false
	}
	return t.reached(n.set, types, t.minima), true, true
}
