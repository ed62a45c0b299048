package ledger_test

import (
	"fmt"
	"testing"
	"time"

	mwv1alpha1 "millwright/api/millwright/v1alpha1"
	"millwright/planner/ledger"
)

// What EC2 takes back of the nodes that were made to return to what is preferred is counted by NodePool: once
// in ten minutes, for two days, and not if the command did not succeed or the node went for another reason.
func TestReturnsThatEC2TakesBackAreCounted(t *testing.T) {
	l, now := ledger.New(logID), start
	apply := func(kind ledger.Kind, payload any) {
		t.Helper()
		if err := l.Apply(ledger.Entry{Seq: l.Seq() + 1, Time: now, Now: now, Mode: ledger.ModeActive, Kind: kind, Payload: payload}); err != nil {
			t.Fatal(err)
		}
	}
	spot := []ledger.FailedOffering{{InstanceType: "m5.large", Zone: "z", CapacityType: "spot"}}
	returned := func(pool string, succeeds bool) string {
		t.Helper()
		seq := l.Seq() + 1
		apply(ledger.KindCommandMovesStarted, &ledger.CommandStarted{Reason: mwv1alpha1.ReasonPreferredAvailable, Candidates: []ledger.Candidate{{NodePool: pool}},
			Replacements: []ledger.PlannedClaim{{NodePool: pool}}})
		if succeeds {
			apply(ledger.KindCommandSucceeded, &ledger.CommandSucceeded{ID: ledger.CommandID(logID, seq)})
		}
		return ledger.ClaimName(logID, pool, seq, 0)
	}
	lost := func(claim string, unavailable []ledger.FailedOffering) {
		t.Helper()
		apply(ledger.KindClaimDoomed, &ledger.ClaimDoomed{Claim: claim, Reason: "spot_interrupted", Unavailable: unavailable})
	}
	times := func(pool string, want int) {
		t.Helper()
		if got := l.LostReturns(pool, now).Times; got != want {
			t.Errorf("NodePool %s after %s: %d, want %d", pool, now.Sub(start), got, want)
		}
	}
	a, b := returned("p", true), returned("p", true)
	lost(returned("p", false), spot)
	lost(returned("q", true), nil)
	times("p", 0)
	lost(a, spot)
	lost(a, spot)
	times("p", 1)
	now = now.Add(9 * time.Minute)
	lost(b, spot)
	times("p", 1)
	now = now.Add(time.Minute)
	lost(returned("p", true), spot)
	times("p", 2)
	times("q", 0)
	restored, err := ledger.Restore(mustCheckpoint(t, l))
	if err != nil || restored.LostReturns("p", now) != l.LostReturns("p", now) || restored.Digest() != l.Digest() {
		t.Errorf("a checkpoint lost it: %v, %+v", err, restored.LostReturns("p", now))
	}
	now = now.Add(48 * time.Hour)
	times("p", 0)
	for n := range 1001 {
		now = now.Add(time.Second)
		lost(returned(fmt.Sprintf("pool-%04d", n), true), spot)
	}
	times("pool-0000", 0)
	times("pool-0001", 1)
	times("pool-1000", 1)
}

func mustCheckpoint(t *testing.T, l *ledger.Ledger) []byte {
	t.Helper()
	b, err := l.Checkpoint()
	if err != nil {
		t.Fatal(err)
	}
	return b
}
