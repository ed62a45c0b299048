package version_test

import (
	"fmt"
	"maps"
	"testing"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"millwright/planner/version"
)

// What differs between two versions is told once each, whatever happened in between.
func TestDifferTellsWhatWasChanged(t *testing.T) {
	for name, hash := range map[string]func(string) uint64{
		"good": version.String[string], "poor": func(k string) uint64 { return version.String(k) % 3 }, "equal": func(string) uint64 { return 7 },
	} {
		t.Run(name, rapid.MakeCheck(func(t *rapid.T) {
			live, rows := version.NewMap[string, int](hash), map[string]int{}
			change := func(o *version.Owner, steps int) {
				for range steps {
					k := fmt.Sprintf("key-%d", rapid.IntRange(0, 200).Draw(t, "key"))
					if rapid.IntRange(0, 2).Draw(t, "do") == 0 {
						live.Delete(o, k)
						delete(rows, k)
						continue
					}
					v := rapid.IntRange(1, 3).Draw(t, "value")
					live.Set(o, k, v)
					rows[k] = v
				}
			}
			change(new(version.Owner), rapid.IntRange(0, 300).Draw(t, "before"))
			before, held := live, maps.Clone(rows)
			change(new(version.Owner), rapid.IntRange(0, 100).Draw(t, "between"))
			want := map[string][2]int{}
			for k := range maps.Keys(held) {
				want[k] = [2]int{held[k], rows[k]}
			}
			for k := range maps.Keys(rows) {
				want[k] = [2]int{held[k], rows[k]}
			}
			maps.DeleteFunc(want, func(_ string, v [2]int) bool { return v[0] == v[1] })
			got := map[string][2]int{}
			version.Differ(&before, &live, func(k string, was, is int) {
				if _, twice := got[k]; twice {
					t.Errorf("%s was told twice", k)
				}
				got[k] = [2]int{was, is}
			})
			if diff := cmp.Diff(want, got); diff != "" {
				t.Fatalf("(-want +got):\n%s", diff)
			}
		}))
	}
}

// A change in a large table costs no walk through it.
func TestDifferPassesOverWhatIsShared(t *testing.T) {
	a, b := new(version.Owner), new(version.Owner)
	live := version.NewMap[string, int](version.String[string])
	for i := range 150_000 {
		live.Set(a, fmt.Sprint("key-", i), 1)
	}
	before := live
	live.Set(b, "key-17", 2)
	if n := testing.AllocsPerRun(10, func() {
		told := 0
		version.Differ(&before, &live, func(string, int, int) { told++ })
		if told != 1 {
			t.Fatalf("%d keys differ", told)
		}
	}); n > 10 {
		t.Errorf("%v allocations", n)
	}
}
