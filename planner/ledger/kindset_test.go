package ledger_test

import (
	"testing"

	"pgregory.net/rapid"

	"millwright/planner/ledger"
)

func TestKindSetHoldsWhatItWasMadeOf(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		in := map[ledger.Kind]bool{}
		var list []ledger.Kind
		for _, n := range rapid.SliceOfN(rapid.Uint16Range(0, 60), 1, 40).Draw(t, "kinds") {
			in[ledger.Kind(n)] = true
			list = append(list, ledger.Kind(n))
		}
		s := ledger.NewKindSet(list)
		if err := s.Valid(); err != nil {
			t.Fatal(err)
		}
		for k := ledger.Kind(0); k < 70; k++ {
			if s.Has(k) != in[k] {
				t.Fatalf("%s holds %d: %v", s, k, s.Has(k))
			}
		}
	})
}

func TestKindSets(t *testing.T) {
	for _, k := range ledger.Kinds() {
		if !ledger.KnownKinds().Has(k) {
			t.Errorf("%s is not in %s", k, ledger.KnownKinds())
		}
	}
	if ledger.KindsFirst.Has(ledger.KindSegmentArchived) || !ledger.KindsFirst.Has(ledger.KindOrphanFound) {
		t.Errorf("the first version: %s", ledger.KindsFirst)
	}
	for _, bad := range []ledger.KindSet{"", "x", "1,", "3-1", "1-70000"} {
		if bad.Valid() == nil {
			t.Errorf("%q is valid", bad)
		}
	}
}
