package ledger_test

import (
	"testing"
	"time"

	karpv1 "millwright/api/karpenter/v1"
	"millwright/planner/ledger"
)

// When drift began to replace the nodes of a NodePool is folded from the commands that say they are of a
// roll-out, kept by checkpoints, and not of the future (disruption §4.1).
func TestRollOutsOfDriftAreKept(t *testing.T) {
	l, now := ledger.New(logID), start
	add := func(kind ledger.Kind, payload any) uint64 {
		t.Helper()
		if err := l.Apply(ledger.Entry{Seq: l.Seq() + 1, Time: now, Now: now, Mode: ledger.ModeActive, Kind: kind, Payload: payload}); err != nil {
			t.Fatal(err)
		}
		return l.Seq()
	}
	plan := func() string {
		return ledger.ClaimName(logID, "p", add(ledger.KindProvisioningPlanned, &ledger.ProvisioningPlanned{Claims: []ledger.PlannedClaim{{NodePool: "p"}}}), 0)
	}
	drift := func(claim string, rollout bool) {
		add(ledger.KindCommandStarted, &ledger.CommandStarted{Reason: karpv1.DisruptionReasonDrifted, Rollout: rollout, Candidates: []ledger.Candidate{{Claim: claim, NodePool: "p"}}})
	}
	began := func(l *ledger.Ledger, n int) {
		t.Helper()
		got := 0
		if list := l.Drifts().All(); len(list) > 0 {
			got = len(list[0].Starts)
		}
		want(t, "roll-outs", got, n)
	}
	first, second := plan(), plan()
	drift(first, false)
	began(l, 0)
	add(ledger.KindCommandStarted, &ledger.CommandStarted{Rollout: true}) // of no node: a fold must not fail
	drift(first, true)
	before := l.Version()
	now = now.Add(24 * time.Hour)
	third := plan()
	drift(second, true)
	began(l, 1)
	drift(third, true)
	began(l, 2)
	began(before, 1)
	restored, err := ledger.Restore(mustCheckpoint(t, l))
	if err != nil || restored.Digest() != l.Digest() {
		t.Fatalf("a checkpoint lost them: %v", err)
	}
	began(restored, 2)
	now = now.Add(1000 * time.Hour)
	fourth := plan()
	drift(fourth, true)
	now = now.Add(-900 * time.Hour) // that was a clock far ahead
	add(ledger.KindAlarmRaised, &ledger.AlarmRaised{})
	_, last, ok := l.Drifts().Interval("p")
	want(t, "known", ok, true)
	want(t, "last", last, now)
}
