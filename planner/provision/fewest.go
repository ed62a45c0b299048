package provision

import (
	"cmp"
	"slices"
)

// findFewest is find over the ordered bins: those with the fewest pods first.
func (s *solver) findFewest(lv *level) *bin {
	for _, b := range s.ordered {
		if lv.busy(b.index/64)&(1<<(b.index%64)) != 0 {
			continue
		}
		if s.ask(b, lv) == accepted {
			return b
		}
	}
	return nil
}

// reorder moves a bin that just got a pod, or its first, to its place.
func (s *solver) reorder(b *bin) {
	if len(b.added) > 1 {
		at, _ := slices.BinarySearchFunc(s.ordered, b, func(x, b *bin) int { return compareFewest(x, b, len(b.added)-1) })
		s.ordered = slices.Delete(s.ordered, at, at+1)
	}
	at, _ := slices.BinarySearchFunc(s.ordered, b, func(x, b *bin) int { return compareFewest(x, b, len(b.added)) })
	s.ordered = slices.Insert(s.ordered, at, b)
}

// compareFewest orders x against b as if b had n pods.
func compareFewest(x, b *bin, n int) int {
	have := len(x.added)
	if x == b {
		have = n
	}
	return cmp.Or(cmp.Compare(have, n), cmp.Compare(x.index, b.index))
}
