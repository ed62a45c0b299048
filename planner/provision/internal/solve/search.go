package solve

import (
	"math/bits"

	"millwright/planner/bitset"
	"millwright/planner/provision/internal/demand"
	"millwright/planner/provision/internal/place"
	"millwright/planner/world"
)

// SearchClass is a class with what the search has learned about it.
type SearchClass struct {
	*demand.Class
	// full are the bins that hold no further pod with these requests, shared by all classes that request the
	// same.
	full *refusers
	// excluded nodes, by name, are not offered to the class.
	excluded map[string]bool
	// Tries are the levels of the class, in the same order.
	Tries []*SearchLevel
}

// SearchLevel is a level with what the search has learned about it.
type SearchLevel struct {
	*demand.Level
	parent *SearchClass
	// Every bin before cursor refused the level for good, and those in dead did too. In the trial under way
	// that is so, or they are not asked, before cursorInTrial; it is of no use once trials is another number.
	cursor        int
	cursorInTrial int
	trials        int
	dead          refusers
	// refusedAt is the stamp of the last attempt that failed.
	refusedAt int
	// deferredAt is the stamp of the last attempt that has to wait for reserved capacity.
	deferredAt int
	// closed holds the templates, by index, that refused the level for good.
	closed bitset.Set
}

// ClassOf returns the class of a pod.
func (s *Solver) ClassOf(p *world.Pod) *SearchClass {
	k := s.Compiler.Class(p)
	for k.Index >= len(s.classes) {
		s.classes = append(s.classes, nil)
	}
	if c := s.classes[k.Index]; c != nil {
		return c
	}
	for k.Request >= len(s.full) {
		s.full = append(s.full, &refusers{})
	}
	c := &SearchClass{Class: k, full: s.full[k.Request]}
	for _, lv := range k.Levels {
		c.Tries = append(c.Tries, &SearchLevel{Level: lv, parent: c, closed: bitset.New(len(s.Templates)), refusedAt: -1, deferredAt: -1})
	}
	s.classes[k.Index] = c
	return c
}

// forgetRefusals makes the pods of the class be tried everywhere again.
func (c *SearchClass) forgetRefusals() {
	c.full.Growing = nil
	for _, lv := range c.Tries {
		lv.cursor, lv.trials, lv.dead.Growing = 0, 0, nil
		lv.refusedAt, lv.deferredAt = -1, -1
	}
}

func (c *SearchClass) exclude(node string) {
	if c.excluded == nil {
		c.excluded = map[string]bool{}
	}
	c.excluded[node] = true
}

// refusalsIn is a word of the bins that refused the level for good, as far as is known without trying.
func (lv *SearchLevel) refusalsIn(w int) uint64 {
	set := lv.dead.Bits(w) | lv.parent.full.Bits(w)
	for _, g := range lv.Exclusive {
		set |= g.Taken(w)
	}
	return set
}

// cursor is the first bin that may be worth trying.
func (s *Solver) cursor(lv *SearchLevel) int {
	t := s.Trial
	switch {
	case t != nil && lv.trials == s.trials:
		return lv.cursorInTrial
	case t != nil && t.OwnClaims:
		return t.bins
	}
	return lv.cursor
}

// setCursor says that no bin before at is worth trying; in a trial, that may be taken back.
func (s *Solver) setCursor(lv *SearchLevel, at int) {
	if s.Trial == nil {
		lv.cursor = at
	} else {
		lv.cursorInTrial, lv.trials = at, s.trials
	}
}

// nextBin is the first bin from i on that is worth trying; it may be past the end.
func (lv *SearchLevel) nextBin(i, end int) int {
	for w := i / 64; w*64 < end; w++ {
		open := ^lv.refusalsIn(w)
		if w == i/64 {
			open &= ^uint64(0) << (i % 64)
		}
		if open != 0 {
			return w*64 + bits.TrailingZeros64(open)
		}
	}
	return end
}

// excludes reports that b is a node that is not offered to the class.
func (c *SearchClass) excludes(b *place.Bin) bool {
	n := b.Node()
	return n != nil && c.excluded[n.State.Name]
}
