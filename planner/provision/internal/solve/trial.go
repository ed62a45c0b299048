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
type Trial struct {
	// ClaimsMax it may open, negative: any; Hasty: it ends with the first pod that has no place.
	ClaimsMax int
	Hasty     bool
	learned   []learned
	items     []movedItem
}

// learned is that a bin refuses for good.
type learned struct {
	set *bitset.Growing
	at  int
}

// movedItem is an item where it was before.
type movedItem struct {
	*Item
	previous PreviousPlacement
}

// PreviousPlacement is where a pod was, and at which level.
type PreviousPlacement struct {
	Bin   *place.Bin
	Level int
}

// Begin starts a change that Commit keeps or Revert takes back.
func (s *Solver) Begin() {
	if s.Trial != nil {
		panic("provision: a trial begins before the last one has ended")
	}
	s.Layout.Begin()
	s.Trial = &Trial{}
	s.trials++
}

// Commit keeps the change.
func (s *Solver) Commit() {
	s.KeepChanges()
	s.Trial = nil
	s.trials++
}

// Revert undoes the change.
func (s *Solver) Revert() {
	t := s.Trial
	s.Trial = nil
	s.trials++
	s.RevertChanges()
	for _, x := range t.learned {
		x.set.Remove(x.at)
	}
	for _, x := range t.items {
		x.Item.Bin, x.Item.Level = x.previous.Bin, x.previous.Level
	}
}

// learn notes that a bin refuses for good.
func (s *Solver) learn(set *bitset.Growing, b *place.Bin) {
	if s.Changed(b) && !set.Has(b.Index) {
		s.Trial.learned = append(s.Trial.learned, learned{set, b.Index})
	}
	set.Add(b.Index)
}

// Relocate takes an item off the bin that is removed.
func (s *Solver) Relocate(it *Item) {
	s.Trial.items = append(s.Trial.items, movedItem{it, PreviousPlacement{it.Bin, it.Level}})
	s.Record(it.Bin, it.Class.Class, -1)
	it.Bin = nil
}

// trialFull reports that the trial may not open one more claim.
func (s *Solver) trialFull() bool {
	return s.Trial != nil && s.Trial.ClaimsMax >= 0 && len(s.Bins)-s.Changes.Bins >= s.Trial.ClaimsMax
}

// ends reports that a pod without a place ends the trial: no pod that is placed later can help it.
func (t *Trial) ends(it *Item) bool {
	return t != nil && t.Hasty && !it.deferred && !slices.ContainsFunc(it.Class.Topology.Hard, func(c *topology.Constraint) bool { return c.Kind != topology.Spread || !c.Group.Hostname() })
}
