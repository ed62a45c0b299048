package version_test

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"millwright/planner/version"
)

type numbers = version.Table[string, int, int]

// odd shows odd rows only.
func odd(n int) (int, bool) { return n, n%2 == 1 }

// model is a version and what it must hold.
type model struct {
	table numbers
	rows  map[string]int
}

func (m *model) check(t *rapid.T, what string) {
	held := map[string]int{}
	for k, v := range m.table.All() {
		held[k] = v
	}
	if diff := cmp.Diff(m.rows, held); diff != "" || m.table.Len() != len(m.rows) {
		t.Fatalf("%s holds %d rows (-want +got):\n%s", what, m.table.Len(), diff)
	}
	var listed []int
	for _, k := range slices.Sorted(maps.Keys(m.rows)) {
		got, ok := m.table.Get(k)
		if !ok || got != m.rows[k] {
			t.Fatalf("%s: %s is %d %t, want %d", what, k, got, ok, m.rows[k])
		}
		if got%2 == 1 {
			listed = append(listed, got)
		}
	}
	if !slices.Equal(listed, m.table.List()) {
		t.Fatalf("%s lists %v, want %v", what, m.table.List(), listed)
	}
	if _, ok := m.table.Get("never"); ok {
		t.Fatalf("%s has what was never set", what)
	}
}

// TestVersionsKeepWhatTheyHeld: whatever is changed later, and whoever lists when.
func TestVersionsKeepWhatTheyHeld(t *testing.T) {
	hashes := map[string]func(string) uint64{
		"good":   version.String[string],
		"poor":   func(k string) uint64 { return version.String(k) % 3 },
		"equal":  func(string) uint64 { return 7 },
		"shared": func(k string) uint64 { return version.String(k) << 40 },
	}
	for name, hash := range hashes {
		t.Run(name, rapid.MakeCheck(func(t *rapid.T) {
			owner := new(version.Owner)
			live := model{version.NewTableFunc(hash, strings.Compare, odd), map[string]int{}}
			var kept []model
			keys := rapid.IntRange(1, 400).Draw(t, "keys")
			for step := range rapid.IntRange(1, 300).Draw(t, "steps") {
				k := fmt.Sprintf("key-%d", rapid.IntRange(0, keys).Draw(t, "key"))
				switch rapid.IntRange(0, 9).Draw(t, "do") {
				case 0:
					kept = append(kept, model{live.table, maps.Clone(live.rows)})
					owner = new(version.Owner)
				case 1:
					live.table.List()
				case 2, 3, 4:
					live.table.Delete(owner, k)
					delete(live.rows, k)
				default:
					live.table.Set(owner, k, step)
					live.rows[k] = step
				}
			}
			live.check(t, "the live table")
			for i := range kept {
				kept[i].check(t, fmt.Sprintf("version %d", i))
			}
		}))
	}
}

// TestListsThatDidNotChangeAreShared: a version that nobody changed costs no second list.
func TestListsThatDidNotChangeAreShared(t *testing.T) {
	owner := new(version.Owner)
	live := version.NewTable[string](version.Whole[int])
	for i := range 100 {
		live.Set(owner, fmt.Sprint(i), i)
	}
	first := live
	owner = new(version.Owner)
	second := live
	if &first.List()[0] != &second.List()[0] {
		t.Error("two versions of one content have two lists")
	}
	live.Set(owner, "7", -7)
	at := slices.Index(first.List(), 7)
	if at < 0 || live.List()[at] != -7 {
		t.Errorf("the versions list %v and %v", first.List(), live.List())
	}
}

// TestADeletedTableIsSmall: what grew and shrank leaves no skeleton behind.
func TestADeletedTableIsSmall(t *testing.T) {
	owner := new(version.Owner)
	live := version.NewMap[string, int](version.String[string])
	for i := range 50_000 {
		live.Set(owner, fmt.Sprint(i), i)
	}
	for i := range 50_000 {
		live.Delete(owner, fmt.Sprint(i))
	}
	if got, want := live.Len(), 0; got != want {
		t.Errorf("%d rows left, want %d", got, want)
	}
	if live.Inner() {
		t.Error("an empty Map still has inner nodes")
	}
}

func BenchmarkGet(b *testing.B) {
	keys := make([]string, 150_000)
	live, plain := version.NewMap[string, *int](version.String[string]), map[string]*int{}
	owner := new(version.Owner)
	for i := range keys {
		keys[i] = fmt.Sprintf("%08x-1111-2222-3333-%012x", i, i)
		live.Set(owner, keys[i], &i)
		plain[keys[i]] = &i
	}
	b.Run("version", func(b *testing.B) {
		for i := range b.N {
			live.Get(keys[i*7919%len(keys)])
		}
	})
	b.Run("map", func(b *testing.B) {
		for i := range b.N {
			_ = plain[keys[i*7919%len(keys)]]
		}
	})
	b.Run("set", func(b *testing.B) {
		for i := range b.N {
			live.Set(owner, keys[i*7919%len(keys)], &i)
		}
	})
	b.Run("set in a new version", func(b *testing.B) {
		b.ReportAllocs()
		for i := range b.N {
			live.Set(new(version.Owner), keys[i*7919%len(keys)], &i)
		}
	})
}
