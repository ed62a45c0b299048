package pseudonyms

import (
	"cmp"
	"maps"
	"slices"
	"strings"
	"testing"

	"pgregory.net/rapid"
)

// renamed joins the pseudonyms of a name's parts.
func (x *words) renamed(t *rapid.T, name string) string {
	parts := strings.Split(name, "/")
	for i, p := range parts {
		q, ok := x.of(p)
		if !ok {
			t.Fatalf("%q has no pseudonym", p)
		}
		parts[i] = q
	}
	return strings.Join(parts, "/")
}

// Names compare with each other as their pseudonyms do, and so do pairs of them with a slash between; fixed
// words stay, and others stay on their sides of them.
func TestOrderIsKept(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		word := rapid.StringMatching(`[a-c0-2]{1,2}([-.][a-c0-2]{1,2}){0,3}`)
		list := rapid.SliceOfN(word, 1, 12).Draw(t, "names")
		set, fixed := map[string]bool{}, map[string]bool{}
		for _, w := range list {
			set[w] = true
		}
		for _, w := range rapid.SliceOfN(rapid.SampledFrom([]string{"kubernetes.io/arch", "b.io/zone", "karpenter.sh/nodepool", "cpu"}), 0, 3).Draw(t, "fixed") {
			fixed[w] = true
		}
		names := slices.Sorted(maps.Keys(set))
		x, err := assign(maps.Clone(set), fixed)
		if err != nil {
			t.Fatal(err)
		}
		pairs := slices.Clone(names)
		for _, a := range names {
			for _, b := range names {
				pairs = append(pairs, a+"/"+b)
			}
		}
		for _, a := range pairs {
			p := x.renamed(t, a)
			for _, b := range pairs {
				if q := x.renamed(t, b); cmp.Compare(a, b) != cmp.Compare(p, q) {
					t.Fatalf("%q and %q become %q and %q", a, b, p, q)
				}
			}
			for f := range fixed {
				if !set[a] {
					continue // pairs are compared with pairs only
				}
				if cmp.Compare(a, f) != cmp.Compare(p, f) {
					t.Fatalf("%q becomes %q, on the other side of %q", a, p, f)
				}
			}
		}
	})
}

// What a name begins with stays what its pseudonym begins with, where that is a name too: planners take a
// ReplicaSet's name apart.
func TestNamesOfReplicas(t *testing.T) {
	x, err := assign(map[string]bool{"web": true, "web-7d9f": true, "7d9f": true, "web-7d9f-x2bqz": true, "webhook": true}, nil)
	if err != nil {
		t.Fatal(err)
	}
	of := func(s string) string {
		p, ok := x.of(s)
		if !ok {
			t.Errorf("%q has no pseudonym", s)
		}
		return p
	}
	if got, want := of("web-7d9f"), of("web")+"-"+of("7d9f"); got != want {
		t.Errorf("%q, want %q", got, want)
	}
	if got, want := of("web-7d9f-x2bqz"), of("web-7d9f")+"-"+of("x2bqz"); got != want {
		t.Errorf("%q, want %q", got, want)
	}
	if strings.HasPrefix(of("webhook"), of("web")) {
		t.Error("webhook begins with web")
	}
	if _, ok := x.of("db"); ok {
		t.Error("a name that nobody collected has a pseudonym")
	}
}

// A name that no label may have stays one.
func TestWhatIsNoNameBecomesNone(t *testing.T) {
	long := strings.Repeat("x", nameMax+1)
	x, err := assign(map[string]bool{"no name!": true, long: true, "name": true}, nil)
	if err != nil {
		t.Fatal(err)
	}
	for w, want := range map[string]bool{"no name!": false, long: false, "name": true} {
		if p := x.pseudonym[w]; valid.MatchString(p) != want {
			t.Errorf("%q becomes %q", w, p)
		}
	}
}

func TestNoRoomIsAnError(t *testing.T) {
	if base, ok := between("a", "a!"); ok {
		t.Errorf("%q is between", base)
	}
}
