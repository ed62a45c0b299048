package offer

import (
	"math"
	"math/big"
	"testing"

	"pgregory.net/rapid"
)

// amount draws amounts of every size, the largest included.
func amount(t *rapid.T, name string) int64 {
	return rapid.OneOf(rapid.Int64Range(0, 100), rapid.Int64Range(0, math.MaxInt64), rapid.Int64Range(math.MaxInt64-3, math.MaxInt64)).Draw(t, name)
}

// Prices are shared out without floats and without overflow: what does not fit is no price.
func TestScaledIsExactOrNoPrice(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		price, wanted, have := amount(t, "price"), amount(t, "wanted"), amount(t, "have")
		got := Scaled(price, wanted, have)
		switch {
		case wanted == 0:
			if got != 0 {
				t.Fatalf("nothing wanted costs %d", got)
			}
			return
		case have == 0:
			if got != NoPrice {
				t.Fatalf("what is not there costs %d", got)
			}
			return
		}
		want := new(big.Int).Mul(big.NewInt(price), new(big.Int).Lsh(big.NewInt(wanted), CostShift))
		want.Quo(want, big.NewInt(have))
		if want.Cmp(big.NewInt(NoPrice)) >= 0 || wanted > math.MaxInt64>>CostShift {
			want.SetInt64(NoPrice)
		}
		if price > 0 && got != want.Int64() {
			t.Fatalf("%d × %d / %d: got %d, want %d", price, wanted, have, got, want)
		}
	})
}

func TestSumsStopAtTheLargestNumber(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		sum, n, x := amount(t, "sum"), amount(t, "n"), amount(t, "x")
		want := new(big.Int).Add(big.NewInt(sum), new(big.Int).Mul(big.NewInt(n), big.NewInt(x)))
		if !want.IsInt64() {
			want.SetInt64(math.MaxInt64)
		}
		if got := AddSaturated(sum, n, x); got != want.Int64() {
			t.Fatalf("%d + %d × %d: got %d, want %d", sum, n, x, got, want)
		}
	})
}
