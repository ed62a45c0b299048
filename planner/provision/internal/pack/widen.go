package pack

import (
	"cmp"
	"slices"

	"millwright/planner/provision/internal/place"
	"millwright/planner/provision/internal/solve"
)

// A planned claim may be widened until its NodeClaim is made (DESIGN §5): it takes pods as an open claim
// does, so its requirements narrow and it keeps the types that hold all its pods. It takes the pods of a new
// claim if that costs no more than both, and pods that have no place at all.

// stepsWiden bounds the search for new claims that a planned one can replace.
const stepsWiden = 200_000

// Widen lets planned claims take over new ones, as far as that costs no more.
func Widen(s *solve.Solver) {
	p := NewPacker(s)
	fresh := p.bins()
	if len(fresh) == 0 {
		return
	}
	earlier := s.Reopen()
	if len(earlier) == 0 {
		return
	}
	p.setGuards()
	for _, b := range earlier {
		b.Open().Price = b.Open().Cost()
	}
	slices.SortStableFunc(fresh, func(a, b *place.Bin) int { return cmp.Compare(a.Open().Price, b.Open().Price) })
	end := s.Steps + stepsWiden
	for _, b := range fresh {
		for _, e := range earlier {
			if s.Steps > end {
				return
			}
			if p.absorb(e, b) {
				break
			}
		}
	}
}

// absorb lets the planned claim e take all pods of the new claim b, if that costs no more than both and no
// pod moves to a NodePool of lower weight or loses a preference.
func (p *Packer) absorb(e, b *place.Bin) bool {
	sum := e.Open().Used.Add(b.Open().Used)
	if !sum.Fits(e.Open().Largest) || p.ranks[e.Open().Template.Index] > p.ranks[b.Open().Template.Index] ||
		!e.Open().State.Set.IntersectsSet(b.Open().State.Set) {
		return false
	}
	r := p.takeApart([]*place.Bin{b})
	return p.keepIf(p.addAll(e, r.waiting, b.Open().Price) && p.preservesOthers(&r), &r)
}

// addAll puts the pods on e, which then costs at most dearer more and can be made so.
func (p *Packer) addAll(e *place.Bin, waiting []movingItem, dearer int64) bool {
	before := e.Open().Price
	for _, w := range waiting {
		if !p.addTo(e, w) {
			return false
		}
	}
	e.Open().Price = e.Open().Cost()
	_, _, err := place.NewFinisher(&p.In.Options).Finish(e)
	return err == nil && e.Open().Price-before <= dearer
}

// addTo puts a pod on e with the preferences that it had met.
func (p *Packer) addTo(e *place.Bin, w movingItem) bool {
	m := &solve.Mode{}
	for i, lv := range w.Class.Tries[:w.keeps+1] {
		if p.Accept(e, lv, m) == place.Accepted {
			p.Put(e, w.Item, m)
			w.Item.Level = i
			return true
		}
	}
	return false
}
