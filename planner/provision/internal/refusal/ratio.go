package refusal

import (
	"cmp"
	"math/bits"
)

// compareRatio compares a/b with c/d without floats; all are ≥ 0, b and d > 0.
func compareRatio(a, b, c, d int64) int {
	h1, l1 := bits.Mul64(uint64(a), uint64(d))
	h2, l2 := bits.Mul64(uint64(c), uint64(b))
	return cmp.Or(cmp.Compare(h1, h2), cmp.Compare(l1, l2))
}
