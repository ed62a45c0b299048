package solve

import (
	"slices"

	"millwright/planner/bitset"
	"millwright/planner/provision/internal/place"
	"millwright/planner/topology"
)

// Trial is a change of a plan that can be reverted: that of its layout, with what was learned about bins that
// changed, and where the pods were. What is learned about other bins stays.
//
// In a plan with nodes A, B, C, each full but for one place, and a pod p of a class K on each:
//
//	begin                     nothing is copied but the limits
//	remove A                  A offers nothing; its pods are no longer counted
//	find(K)                   learns that B is full for K (it stays so in every trial); takes C; noted: C as it was
//	find(K) for another pod   learns that C is full: C has changed, so this is noted too
//	revert                    C has its place again and is not known to be full; A offers its places; B is still known to be full
//
// A trial may begin within another: reverting it takes back its own changes, committing it makes them those
// of the outer one.
type Trial struct {
	Bounds
	// outer is the trial within which this one began; nil: none.
	outer *Trial
	// bins is how many there were when it began.
	bins    int
	learned []learned
	// filled are sets that contain bins which the trial opened.
	filled []*refusers
	items  []movedItem
}

// Bounds of the search in a trial.
type Bounds struct {
	// ClaimsMax it may open; negative: any.
	ClaimsMax int
	// Hasty: it ends with the first pod that has no place.
	Hasty bool
	// OwnClaims: pods go to the claims that the trial opens, and nowhere else.
	OwnClaims bool
}

// Unbounded lets a trial open any number of claims.
var Unbounded = Bounds{ClaimsMax: -1}

// refusers are bins that refuse for good.
type refusers struct {
	bitset.Growing
	// trials is its number when the set was last noted as filled.
	trials int
}

// learned is that a bin refuses for good which changed, but was there before the trial.
type learned struct {
	set *refusers
	at  int
}

// movedItem is an item where it was before.
type movedItem struct {
	*Item
	previous previousPlacement
}

// previousPlacement is where a pod was, and at which level.
type previousPlacement struct {
	Bin   *place.Bin
	Level int
}

// Begin starts a change that the next Commit keeps or the next Revert takes back.
func (s *Solver) Begin(bounds Bounds) {
	t := s.spareTrial
	if t == nil {
		t = &Trial{}
	}
	s.spareTrial = nil
	*t = Trial{Bounds: bounds, outer: s.Trial, bins: len(s.Bins), learned: t.learned[:0], filled: t.filled[:0], items: t.items[:0]}
	s.Trial = t
	s.Layout.Begin()
	s.trials++
}

// Commit keeps the change that was begun last.
func (s *Solver) Commit() {
	t := s.Trial
	s.Trial, s.spareTrial = t.outer, t
	s.KeepChanges()
	if t.outer != nil {
		t.outer.learned = append(t.outer.learned, t.learned...)
		t.outer.filled = append(t.outer.filled, t.filled...)
		t.outer.items = append(t.outer.items, t.items...)
	}
	s.trials++
}

// Revert undoes the change that was begun last.
func (s *Solver) Revert() {
	t := s.Trial
	s.Trial, s.spareTrial = t.outer, t
	s.RevertChanges()
	for _, x := range t.learned {
		x.set.Remove(x.at)
	}
	for _, set := range t.filled {
		set.Truncate(t.bins)
	}
	for _, x := range slices.Backward(t.items) {
		x.Item.Bin, x.Item.Level = x.previous.Bin, x.previous.Level
	}
	s.trials++
}

// learnRefusal notes that a bin refuses for good.
func (s *Solver) learnRefusal(set *refusers, b *place.Bin) {
	switch t := s.Trial; {
	case !s.Changed(b) || set.Has(b.Index):
	case b.Index < t.bins:
		t.learned = append(t.learned, learned{set, b.Index})
	case set.trials != s.trials:
		set.trials = s.trials
		t.filled = append(t.filled, set)
	}
	set.Add(b.Index)
}

// Relocate takes an item off the bin that is removed.
func (s *Solver) Relocate(it *Item) {
	s.Record(it.Bin, it.Class.Class, -1)
	s.unplace(it)
}

// unplace takes an item off its bin until the trial is reverted.
func (s *Solver) unplace(it *Item) {
	s.Trial.items = append(s.Trial.items, movedItem{it, previousPlacement{it.Bin, it.Level}})
	it.Bin = nil
}

// TakeApart removes new claims, so that their pods, the items of each, need a place.
func (s *Solver) TakeApart(claims []*place.Bin, items map[*place.Bin][]*Item) {
	n := 0
	for _, b := range claims {
		n += len(items[b])
	}
	s.Trial.items = slices.Grow(s.Trial.items, n)
	for _, b := range claims {
		s.RemoveClaim(b)
		for _, it := range items[b] {
			s.unplace(it)
		}
	}
}

// Opened are the claims that the trial has opened, in order.
func (t *Trial) Opened(s *Solver) []*place.Bin { return s.Bins[t.bins:] }

// trialFull reports that a trial may not open one more claim.
func (s *Solver) trialFull() bool {
	for t := s.Trial; t != nil; t = t.outer {
		if t.ClaimsMax >= 0 && len(s.Bins)-t.bins >= t.ClaimsMax {
			return true
		}
	}
	return false
}

// endsWithout reports that a pod without a place ends the trial: no pod that is placed later can help it.
func (t *Trial) endsWithout(it *Item) bool {
	return t != nil && t.Hasty && !it.deferred && !slices.ContainsFunc(it.Class.Topology.Hard, func(c *topology.Constraint) bool { return c.Kind != topology.Spread || !c.Group.Hostname() })
}
