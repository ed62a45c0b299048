package solve

import (
	"cmp"
	"slices"

	"millwright/planner/provision/internal/place"
)

// FewestFirst orders new claims by their pods: those with the fewest first, of equal ones the older.
type FewestFirst struct{ ordered []*place.Bin }

// findFewest is findBin over the new claims in the order of the mode.
func (s *Solver) findFewest(lv *SearchLevel, m *Mode) *place.Bin {
	for _, b := range m.Fewest.ordered {
		if lv.refusalsIn(b.Index/64)&(1<<(b.Index%64)) != 0 {
			continue
		}
		if s.askBin(b, lv, m) == place.Accepted {
			return b
		}
	}
	return nil
}

// reorder moves a bin that just got a pod, or its first, to its place.
func (f *FewestFirst) reorder(b *place.Bin) {
	if len(b.Added) > 1 {
		at, _ := slices.BinarySearchFunc(f.ordered, b, func(x, b *place.Bin) int { return compareFewest(x, b, len(b.Added)-1) })
		f.ordered = slices.Delete(f.ordered, at, at+1)
	}
	at, _ := slices.BinarySearchFunc(f.ordered, b, func(x, b *place.Bin) int { return compareFewest(x, b, len(b.Added)) })
	f.ordered = slices.Insert(f.ordered, at, b)
}

// compareFewest orders x against b as if b had n pods.
func compareFewest(x, b *place.Bin, n int) int {
	have := len(x.Added)
	if x == b {
		have = n
	}
	return cmp.Or(cmp.Compare(have, n), cmp.Compare(x.Index, b.Index))
}

// FewestMax bounds pods × claims of a try that tries the claims with the fewest pods first, because each pod
// then goes through all claims.
const FewestMax = 1_500_000
