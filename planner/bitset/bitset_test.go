package bitset_test

import (
	"maps"
	"slices"
	"testing"

	"pgregory.net/rapid"

	"millwright/planner/bitset"
)

const members = 200

func drawSet(t *rapid.T, name string) (bitset.Set, map[int]bool) {
	set, model := bitset.New(members), map[int]bool{}
	for _, i := range rapid.SliceOf(rapid.IntRange(0, members-1)).Draw(t, name) {
		set.Add(i)
		model[i] = true
	}
	return set, model
}

func sorted(m map[int]bool) []int { return slices.Sorted(maps.Keys(m)) }

// A Set answers as a map of its members does.
func TestSetIsASetOfNumbers(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		a, inA := drawSet(t, "a")
		b, inB := drawSet(t, "b")
		within, inWithin := drawSet(t, "within")
		both, either, without := map[int]bool{}, maps.Clone(inA), map[int]bool{}
		all := false
		for i := range inA {
			if inB[i] {
				both[i] = true
				all = all || inWithin[i]
			} else {
				without[i] = true
			}
		}
		maps.Copy(either, inB)
		check := func(what string, set bitset.Set, want map[int]bool) {
			if got := slices.Collect(set.Members()); !slices.Equal(got, sorted(want)) {
				t.Fatalf("%s: %v, want %v", what, got, sorted(want))
			}
			at, single := set.Single()
			if set.Count() != len(want) || set.Any() != (len(want) > 0) || single != (len(want) == 1) || single && !want[at] {
				t.Fatalf("%s: count %d, any %t, single %d %t, want %v", what, set.Count(), set.Any(), at, single, sorted(want))
			}
		}
		check("a", a, inA)
		if a.Meets(b) != (len(both) > 0) || a.MeetsWithin(b, within) != all || a.MeetsWithin(b, nil) != a.Meets(b) || a.Equal(b) != maps.Equal(inA, inB) {
			t.Fatalf("%v and %v within %v: meets %t, within %t, equal %t", sorted(inA), sorted(inB), sorted(inWithin), a.Meets(b), a.MeetsWithin(b, within), a.Equal(b))
		}
		for what, c := range map[string]struct {
			do   func(bitset.Set)
			want map[int]bool
		}{"and": {func(s bitset.Set) { s.And(b) }, both}, "or": {func(s bitset.Set) { s.Or(b) }, either}, "subtract": {func(s bitset.Set) { s.Subtract(b) }, without}} {
			s := a.Clone()
			c.do(s)
			check(what, s, c.want)
		}
		check("a, after its copies changed", a, inA)
	})
}

func TestFull(t *testing.T) {
	for _, n := range []int{0, 1, 63, 64, 65} {
		if got := bitset.Full(n).Count(); got != n {
			t.Errorf("%d of %d members", got, n)
		}
	}
}

// A Growing answers as a map does, whatever the order of changes.
func TestGrowingIsASetOfNumbers(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		var g bitset.Growing
		model := map[int]bool{}
		for range rapid.IntRange(0, 50).Draw(t, "changes") {
			i := rapid.IntRange(0, 300).Draw(t, "i")
			switch rapid.SampledFrom([]string{"add", "add", "add", "remove", "truncate"}).Draw(t, "do") {
			case "add":
				g.Add(i)
				model[i] = true
			case "remove":
				g.Remove(i)
				delete(model, i)
			case "truncate":
				g.Truncate(i)
				maps.DeleteFunc(model, func(n int, _ bool) bool { return n >= i })
			}
		}
		for i := range 400 {
			word := g.Bits(i/bitset.Word)&(1<<(i%bitset.Word)) != 0
			if g.Has(i) != model[i] || word != model[i] {
				t.Fatalf("has %d: %t, in its word: %t, want %t", i, g.Has(i), word, model[i])
			}
		}
	})
}
