package requirement

import (
	"fmt"
	"slices"
	"strconv"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"pgregory.net/rapid"
)

// universe holds every value the generators use, two that none lists, and integers beyond all bounds.
var universe = []string{"a", "b", "c", "fresh", "also-fresh", "-3", "-1", "0", "1", "2", "3", "4", "5", "6", "7", "8", "9", "1000"}

func anyRequirement(key string) *rapid.Generator[Requirement] {
	return rapid.Custom(func(t *rapid.T) Requirement {
		r := term(key).Draw(t, "term")
		if rapid.Bool().Draw(t, "compound") {
			r = r.Intersection(term(key).Draw(t, "second"))
		}
		return r
	})
}

func term(key string) *rapid.Generator[Requirement] {
	return rapid.Custom(func(t *rapid.T) Requirement {
		op := rapid.SampledFrom([]corev1.NodeSelectorOperator{"In", "NotIn", "Exists", "DoesNotExist", "Gt", "Lt", "Gte", "Lte"}).Draw(t, "op")
		switch op {
		case "Gt", "Lt", "Gte", "Lte":
			return New(key, op, strconv.Itoa(rapid.IntRange(0, 8).Draw(t, "n")))
		}
		return New(key, op, rapid.SliceOfN(rapid.SampledFrom([]string{"a", "b", "c", "0", "1", "2", "5", "8"}), 0, 4).Draw(t, "values")...)
	})
}

func allowed(has func(string) bool) []string {
	var out []string
	for _, v := range universe {
		if has(v) {
			out = append(out, v)
		}
	}
	return out
}

func TestIntersectionAllowsExactlyWhatBothAllow(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		a, b := anyRequirement("k").Draw(t, "a"), anyRequirement("k").Draw(t, "b")
		got := allowed(a.Intersection(b).Has)
		want := allowed(func(v string) bool { return a.Has(v) && b.Has(v) })
		if !slices.Equal(got, want) {
			t.Fatalf("%s ∧ %s = %s allows %v, want %v", a, b, a.Intersection(b), got, want)
		}
		if !a.Intersection(b).Equal(b.Intersection(a)) {
			t.Fatalf("not commutative: %s, %s", a.Intersection(b), b.Intersection(a))
		}
	})
}

func TestIntersectionIsAssociative(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		a, b, c := anyRequirement("k").Draw(t, "a"), anyRequirement("k").Draw(t, "b"), anyRequirement("k").Draw(t, "c")
		l, r := allowed(a.Intersection(b).Intersection(c).Has), allowed(a.Intersection(b.Intersection(c)).Has)
		if !slices.Equal(l, r) {
			t.Fatalf("(%s ∧ %s) ∧ %s: %v, %v", a, b, c, l, r)
		}
	})
}

func TestHasIntersectionAgreesWithTheNaiveModel(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		a, b := anyRequirement("k").Draw(t, "a"), anyRequirement("k").Draw(t, "b")
		naive := len(allowed(func(v string) bool { return a.Has(v) && b.Has(v) })) > 0
		got := a.HasIntersection(b)
		if naive && !got {
			t.Fatalf("%s and %s share a value, HasIntersection says no", a, b)
		}
		// Two complements count as intersecting unless their bounds contradict (scheduling §5).
		if !naive && got && !(a.Complement() && b.Complement()) {
			t.Fatalf("%s and %s share no value, HasIntersection says yes", a, b)
		}
		if got != b.HasIntersection(a) {
			t.Fatal("not symmetric")
		}
	})
}

func TestEntriesKeepTheMeaning(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		a := anyRequirement("k").Draw(t, "a").WithMinValues(rapid.IntRange(0, 3).Draw(t, "min"))
		if a.Impossible() {
			return
		}
		back := New("k", "NotIn", "never")
		for _, e := range a.Entries() {
			r := New(e.Key, e.Operator, e.Values...)
			if e.MinValues != nil {
				r = r.WithMinValues(*e.MinValues)
			}
			back = back.Intersection(r)
		}
		if !slices.Equal(allowed(back.Has), allowed(a.Has)) || back.Negative() != a.Negative() || back.MinValues() != a.MinValues() {
			t.Fatalf("%s became %s through %v", a, back, a.Entries())
		}
	})
}

func anySet() *rapid.Generator[Set] {
	return rapid.Custom(func(t *rapid.T) Set {
		var s Set
		for _, k := range []string{"a", "b", "kubernetes.io/arch"} {
			for range rapid.IntRange(0, 2).Draw(t, "terms") {
				s = s.Add(anyRequirement(k).Draw(t, k))
			}
		}
		return s
	})
}

func TestSetsAreNotChangedAndOrderIsIrrelevant(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		a, b := anySet().Draw(t, "a"), anySet().Draw(t, "b")
		before := fmt.Sprint(a, "|", b)
		if ab, ba := a.Intersection(b), b.Intersection(a); !ab.Equal(ba) || ab.String() != ba.String() {
			t.Fatalf("%s and %s", ab, ba)
		}
		a.Without("a")
		a.Replace(In("b", "x"))
		if after := fmt.Sprint(a, "|", b); after != before {
			t.Fatalf("changed from %s to %s", before, after)
		}
	})
}

func TestSetRelationsAgreeWithTheirDefinition(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		a, b := anySet().Draw(t, "a"), anySet().Draw(t, "b")
		intersects, compatible := true, true
		for _, r := range b.Requirements() {
			e, defined := a.Lookup(r.Key())
			switch {
			case !defined && r.Impossible():
				compatible = false
			case defined && !e.HasIntersection(r) && !(e.Negative() && r.Negative()):
				intersects = false
			case !defined && !r.Negative() && r.Key() != corev1.LabelArchStable:
				compatible = false
			}
		}
		if (a.Intersects(b) == nil) != intersects || a.IntersectsSet(b) != intersects {
			t.Fatalf("%s Intersects %s: %v, want %v", a, b, a.Intersects(b), intersects)
		}
		compatible = compatible && intersects
		if (a.Compatible(b, AllKnown) == nil) != compatible || a.CompatibleSet(b, AllKnown) != compatible {
			t.Fatalf("%s Compatible %s: %v, want %v", a, b, a.Compatible(b, AllKnown), compatible)
		}
	})
}

func TestMatchesLabelsEqualsCompatibleWithoutUndefinedKeys(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		labels := rapid.MapOf(rapid.SampledFrom([]string{"a", "b", "kubernetes.io/arch"}), rapid.SampledFrom([]string{"a", "b", "1", "5"})).Draw(t, "labels")
		s := anySet().Draw(t, "s")
		if got, want := s.MatchesLabels(labels), FromLabels(labels).Compatible(s, NoneKnown) == nil; got != want {
			t.Fatalf("%s on %v: %v, want %v", s, labels, got, want)
		}
	})
}

func TestKeyTellsSetsApart(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		a, b := anySet().Draw(t, "a"), anySet().Draw(t, "b")
		if (a.Key() == b.Key()) != a.Equal(b) {
			t.Fatalf("%s and %s: keys %q, %q", a, b, a.Key(), b.Key())
		}
	})
}

func TestContradictionsMatchNoNode(t *testing.T) {
	for _, s := range []Set{
		NewSet(In("k", "a"), In("k", "b")), NewSet(New("k", "Gt", "5"), New("k", "Lt", "3")), NewSet(In("k", "a"), DoesNotExist("k")),
		NewSet(New("k", "Gt", "x")), NewSet(Exists("k"), New("k", "NotIn", "a")),
	} {
		if s.MatchesLabels(nil) || s.MatchesLabels(map[string]string{"k": "a"}) {
			t.Errorf("%s holds", s)
		}
	}
	if (Set{}).Compatible(NewSet(In(corev1.LabelArchStable, "a"), In(corev1.LabelArchStable, "b")), AllKnown) == nil {
		t.Error("a template takes a pod that contradicts itself")
	}
}

// Requirements that no node can meet survive as entries too.
func TestExactEntriesGiveAnEqualSet(t *testing.T) {
	for _, s := range []Set{
		NewSet(In("a", "x"), DoesNotExist("b"), Exists("c"), New("d", "Gt", "3"), New("e", "NotIn", "y")), NewSet(New("a", "Gt", "x")), NewSet(New("a", "Odd")),
		NewSet(In("a", "x"), In("a", "y")), NewSet(New("a", "NotIn", "x"), Exists("a")), {},
	} {
		if again, _ := FromClaim(s.ExactEntries()); !again.Equal(s) {
			t.Errorf("%s became %s", s, again)
		}
	}
}
