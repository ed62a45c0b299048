package audit_test

import (
	"bytes"
	"errors"
	"testing"

	"millwright/planner"
	"millwright/planner/provision"
	"millwright/store/audit"
)

// Present gives what the services have folded, so a plan on it is theirs.
func TestPresentIsWhatTheServicesHave(t *testing.T) {
	s := newSite(t)
	if _, _, err := audit.Present(s.ctx, s.log, s.stream); !errors.Is(err, audit.ErrUnsynced) {
		t.Fatalf("before the first resync: %v", err)
	}
	s.live()
	w, l, err := audit.Present(s.ctx, s.log, s.stream)
	s.check(err)
	want(t, "ledger", l.Seq(), s.ledger.Seq())
	want(t, "position", w.Position(), s.world.Position())
	mine, err := w.Checkpoint()
	s.check(err)
	theirs, err := s.world.Checkpoint()
	s.check(err)
	want(t, "the same World", bytes.Equal(mine, theirs), true)
	_, a := provision.Plan(planner.NewSnapshot(w, l, s.now))
	_, b := provision.Plan(s.snapshot())
	want(t, "the same round", len(a.Verdicts), len(b.Verdicts))
}
