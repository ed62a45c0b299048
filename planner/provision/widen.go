package provision

import (
	"cmp"
	"maps"
	"slices"

	"millwright/planner"
	"millwright/planner/ledger"
	"millwright/planner/topology"
)

// A planned claim may be widened until its NodeClaim is made (DESIGN §5): it takes pods as an open claim does, so its
// requirements narrow and of its types those stay that hold all its pods. It takes the pods of a new claim if that is
// no dearer than both, and pods that have no place at all.

const (
	// stepsWiden bounds the search for new claims that a planned one can take the place of.
	stepsWiden = 200_000
	// widenedMax is how often a claim is widened at most: the Ledger keeps what was planned before.
	widenedMax = 8
)

// widen has planned claims take over new ones, as far as that is no dearer.
func (s *solver) widen() {
	p := s.packer()
	fresh := p.bins()
	if len(fresh) == 0 {
		return
	}
	earlier := s.reopen()
	if len(earlier) == 0 {
		return
	}
	p.setGuards()
	for _, b := range earlier {
		b.price = b.open.cost()
	}
	slices.SortStableFunc(fresh, func(a, b *bin) int { return cmp.Compare(a.price, b.price) })
	end := s.steps + stepsWiden
	for _, b := range fresh {
		for _, e := range earlier {
			if s.steps > end {
				return
			}
			if p.absorb(e, b) {
				break
			}
		}
	}
}

// reopen turns the planned claims that may be widened into open ones, and returns those that are, by name.
func (s *solver) reopen() []*bin {
	var list []*bin
	own := map[*bin][]*item{}
	for _, it := range s.items {
		if it.bin != nil && it.bin.planned != nil {
			own[it.bin] = append(own[it.bin], it)
		}
	}
	for _, b := range s.bins {
		if b.planned != nil && b.planned.uncreated && len(b.planned.claim.Earlier) < widenedMax {
			s.reopenOne(b, own[b], b.planned.claim.Planned)
		}
		if b.earlier != nil {
			list = append(list, b)
		}
	}
	return list
}

// reopenOne has a planned claim go on from content, with the pods that are its own.
func (s *solver) reopenOne(b *bin, own []*item, content *ledger.PlannedClaim) {
	o := s.resume(content)
	if o == nil || len(o.state.reservations(o.types)) > 0 {
		return // reserved capacity is held by claims, not by pods
	}
	o.reserved = b.planned.claim.Capacity
	for _, it := range own {
		o.used = o.used.Add(it.class.requests)
	}
	if !s.fits(o, o.state, &o.used, b.ports) {
		return
	}
	copy(o.types, s.buffer[:len(o.types)])
	if o.cheapest() == noPrice {
		return
	}
	o.largest = o.largestGrowth()
	o.room = o.largest.Sub(o.used)
	b.open, b.earlier, b.planned, b.before = o, b.planned, nil, len(b.added)
}

// closeReopened makes planned claims again of those that took nothing.
func (s *solver) closeReopened() {
	for _, b := range s.bins {
		if b.earlier != nil && len(b.added) == b.before {
			b.planned, b.earlier, b.open = b.earlier, nil, nil
		}
	}
}

// absorb has the planned claim e take all pods of the new claim b, if that is no dearer than both and no pod goes to a NodePool of
// less weight or loses a preference.
func (p *packer) absorb(e, b *bin) bool {
	sum := e.open.used.Add(b.open.used)
	if !sum.Fits(e.open.largest) || p.ranks[e.open.template.index] > p.ranks[b.open.template.index] ||
		!e.open.state.set.IntersectsSet(b.open.state.set) {
		return false
	}
	saved, before := e.save(), e.price
	watched := p.watch([]*bin{b})
	waiting := p.take([]*bin{b})
	for _, w := range waiting {
		if !p.addTo(e, w) {
			p.restore(e, saved)
			p.undo([]*bin{b}, nil, waiting)
			return false
		}
	}
	e.price = e.open.cost()
	if _, _, err := p.finisher().finish(e); err != nil || e.price-before > b.price || !p.spared(watched, waiting) {
		p.restore(e, saved)
		e.price = before
		p.undo([]*bin{b}, nil, waiting)
		return false
	}
	return true
}

// addTo puts a pod on e with the preferences that it had met.
func (p *packer) addTo(e *bin, w was) bool {
	for i, lv := range w.class.levels[:w.keeps+1] {
		if p.accept(e, lv) == accepted {
			p.put(e, w.item)
			w.item.level = i
			return true
		}
	}
	return false
}

// savedBin is what of an open claim changes as it takes pods.
type savedBin struct {
	open                  openClaim
	added, ports, records int
	uncounted             map[*topology.Group]int32
}

func (b *bin) save() savedBin {
	v := savedBin{open: *b.open, added: len(b.added), ports: len(b.ports), records: len(b.records), uncounted: maps.Clone(b.uncounted)}
	v.open.types = b.open.types.Clone()
	return v
}

func (s *solver) restore(b *bin, v savedBin) {
	for _, r := range b.records[v.records:] {
		r.group.Record(r.at, -r.n)
	}
	b.open.template.limits.reserve(v.open.reserved.Sub(b.open.reserved), 0)
	*b.open = v.open
	b.added, b.ports, b.records, b.uncounted = b.added[:v.added], b.ports[:v.ports], b.records[:v.records], v.uncounted
}

// addWidened adds the claims that took more pods. One that cannot be made as it would be stays as it was, and the pods it took are
// refused.
func (d *decision) addWidened() {
	d.solver.closeReopened()
	f := d.solver.finisher()
	for _, b := range d.solver.bins {
		if b.earlier == nil {
			continue
		}
		p, sh, err := f.finish(b)
		if err != nil {
			d.failed[b] = []ledger.Refusal{{NodePool: b.open.template.name, Constraint: constraintRequirements, Message: err.Error()}}
			continue
		}
		was := b.earlier.claim
		d.payload.Widened = append(d.payload.Widened, ledger.WidenedClaim{Claim: was.Name, Content: p})
		d.explain.Widened = append(d.explain.Widened, WidenedExplanation{
			Claim: was.Name, Added: len(b.added) - b.before, Before: was.Planned.Cheapest, Chosen: p.Cheapest, InstanceTypes: len(sh.offers),
		})
		d.touchPool(p.NodePool)
		name := ledger.ClaimAggregate(was.Name)
		d.expects[name], d.advances[name], d.subjects["claim/"+was.Name] = true, true, true
	}
}

// reasonUnneeded of a ClaimWithdrawn.
const reasonUnneeded = "no_pod_needs_it"

// withdrawal is the decision to give up the first planned claim, by name, that is not made yet and that no pod needs any more; nil
// if there is none. Claims of static NodePools and replacements are there without pods.
func (s *solver) withdrawal(snap *planner.Snapshot) *planner.Decision {
	for _, b := range s.bins {
		if b.planned == nil || !b.planned.uncreated || len(b.added) > 0 {
			continue
		}
		c := b.planned.claim
		name, pool := ledger.ClaimAggregate(c.Name), ledger.PoolAggregate(c.NodePool)
		return &planner.Decision{
			Kind: ledger.KindClaimWithdrawn, Payload: &ledger.ClaimWithdrawn{Claim: c.Name, Reason: reasonUnneeded}, Causation: c.ContentSeq(),
			Subjects: []string{"claim/" + c.Name, pool}, Expects: snap.Expect(name, pool), Advances: []string{name, pool},
		}
	}
	return nil
}
