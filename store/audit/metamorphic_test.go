package audit_test

import (
	"testing"

	"pgregory.net/rapid"

	"millwright/planner"
	"millwright/planner/disrupt"
	"millwright/planner/ledger"
	pt "millwright/planner/plannertest"
	"millwright/planner/provision"
	"millwright/planner/world"
)

// decisions returns the digests of what the planners decide on a Snapshot.
func decisions(s *planner.Snapshot) [2]string {
	var digests [2]string
	if d, _ := provision.Plan(s); d != nil {
		digests[0] = ledger.PayloadDigest(d.Kind, d.Payload)
	}
	if d, _ := disrupt.Plan(s); d != nil {
		digests[1] = ledger.PayloadDigest(d.Kind, d.Payload)
	}
	return digests
}

func restored[T any](t rapid.TB, checkpoint func() ([]byte, error), restore func([]byte) (T, error)) T {
	data, err := checkpoint()
	if err != nil {
		t.Fatal(err)
	}
	v, err := restore(data)
	if err != nil {
		t.Fatal(err)
	}
	return v
}

// A decision depends on the Snapshot alone: planned twice, or on folds that went through a checkpoint, it is
// the same, and what was decided is not decided again.
func TestDecisionsAreFunctionsOfTheSnapshot(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		c := pt.Scene(t)
		s := c.Snapshot()
		first := decisions(s)
		if again := decisions(c.Snapshot()); again != first {
			t.Fatalf("planned twice: %v and %v", first, again)
		}
		w := restored(t, c.World.Checkpoint, world.Restore)
		l := restored(t, c.Ledger.Checkpoint, ledger.Restore)
		if other := decisions(planner.NewSnapshot(w, l, c.Clock)); other != first {
			t.Fatalf("live %v, restored %v", first, other)
		}
		if d, _ := provision.Plan(s); d != nil {
			c.Decide(s, d)
			if d, _ := provision.Plan(c.Snapshot()); d != nil {
				t.Fatalf("decided again with nothing new: %+v", d.Payload)
			}
		}
	})
}
