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
	// Full are the bins that hold no further pod with these requests, shared by all classes that request the
	// same.
	Full *bitset.Growing
	// excluded nodes, by name, are not offered to the class.
	excluded map[string]bool
	// Tries are the levels of the class, in the same order.
	Tries []*SearchLevel
}

// SearchLevel is a level with what the search has learned about it.
type SearchLevel struct {
	*demand.Level
	parent *SearchClass
	// Cursor: every bin before it refused the level for good; dead: these after it did too.
	Cursor int
	Dead   bitset.Growing
	// RefusedAt is the stamp of the last attempt that failed.
	RefusedAt int
	// DeferredAt is the stamp of the last attempt that has to wait for reserved capacity.
	DeferredAt int
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
		s.full = append(s.full, &bitset.Growing{})
	}
	c := &SearchClass{Class: k, Full: s.full[k.Request]}
	for _, lv := range k.Levels {
		c.Tries = append(c.Tries, &SearchLevel{Level: lv, parent: c, closed: bitset.New(len(s.Templates)), RefusedAt: -1, DeferredAt: -1})
	}
	s.classes[k.Index] = c
	return c
}

// forgetRefusals makes the pods of the class be tried everywhere again.
func (c *SearchClass) forgetRefusals() {
	*c.Full = nil
	for _, lv := range c.Tries {
		lv.Cursor, lv.Dead = 0, nil
		lv.RefusedAt, lv.DeferredAt = -1, -1
	}
}

func (c *SearchClass) exclude(node string) {
	if c.excluded == nil {
		c.excluded = map[string]bool{}
	}
	c.excluded[node] = true
}

// busy is a word of the bins that refused the level for good, as far as is known without trying.
func (lv *SearchLevel) busy(w int) uint64 {
	set := lv.Dead.Bits(w) | lv.parent.Full.Bits(w)
	for _, g := range lv.Exclusive {
		set |= g.Taken(w)
	}
	return set
}

// next is the first bin from i on that is worth trying; it may be past the end.
func (lv *SearchLevel) next(i, end int) int {
	for w := i / 64; w*64 < end; w++ {
		open := ^lv.busy(w)
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
