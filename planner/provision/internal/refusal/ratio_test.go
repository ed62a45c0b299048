package refusal

import (
	"math"
	"math/big"
	"testing"

	"pgregory.net/rapid"
)

// Ratios are compared as exactly as fractions are, however large.
func TestRatiosCompareAsFractions(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		number := func(name string, least int64) int64 {
			return rapid.OneOf(rapid.Int64Range(least, 50), rapid.Int64Range(least, math.MaxInt64), rapid.Int64Range(math.MaxInt64-3, math.MaxInt64)).Draw(t, name)
		}
		a, b, c, d := number("a", 0), number("b", 1), number("c", 0), number("d", 1)
		if got, want := compareRatio(a, b, c, d), big.NewRat(a, b).Cmp(big.NewRat(c, d)); got != want {
			t.Fatalf("%d/%d and %d/%d: got %d, want %d", a, b, c, d, got, want)
		}
	})
}
