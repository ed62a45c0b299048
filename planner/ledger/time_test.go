package ledger_test

import (
	"testing"
	"time"

	"millwright/planner/ledger"
)

// A record from the future is over as soon as the next one is folded: nothing waits, or stays marked, until its time has come.
// The rules: DESIGN §2.
func TestTimesOfTheFutureAreBroughtBack(t *testing.T) {
	const ahead = 31 * 24 * time.Hour
	b := open(t)
	seq := b.add(ledger.KindProvisioningPlanned, &ledger.ProvisioningPlanned{Claims: []ledger.PlannedClaim{{NodePool: "general"}}})
	name := ledger.ClaimName(logID, "general", seq, 0)
	pod := ledger.PodRef{UID: "u1", Namespace: "d", Name: "p"}
	b.add(ledger.KindClaimCreated, &ledger.ClaimCreated{Claim: name, UID: "c1"})
	b.at = start.Add(ahead)
	b.add(ledger.KindLaunchRequested, &ledger.LaunchRequested{Claim: name, UID: "c1", Attempt: 1})
	b.add(ledger.KindLaunchFailed, &ledger.LaunchFailed{Claim: name, UID: "c1", Attempt: 1, Unavailable: []ledger.FailedOffering{{InstanceType: "m5.large", Zone: "a", CapacityType: "spot"}}})
	b.add(ledger.KindLaunchRequested, &ledger.LaunchRequested{Claim: name, UID: "c1", Attempt: 2})
	b.add(ledger.KindClaimRegistered, &ledger.ClaimRegistered{Claim: name, Node: "n"})
	b.add(ledger.KindDrainStarted, &ledger.DrainStarted{Node: "n"})
	b.add(ledger.KindProvisioningPlanned, &ledger.ProvisioningPlanned{Placements: []ledger.Placement{{Node: "n", Pods: []ledger.PodRef{pod}}}})
	b.add(ledger.KindProvisioningPlanned, &ledger.ProvisioningPlanned{Excluded: []ledger.Exclusion{{Node: "n", Pods: []ledger.PodRef{pod}}}})
	command := ledger.CommandID(logID, b.add(ledger.KindCommandStarted, &ledger.CommandStarted{}))
	b.add(ledger.KindControlChanged, &ledger.ControlChanged{By: "me"})
	b.at = start.Add(time.Minute)
	if b.Command(command).At.Before(start.Add(ahead)) || !b.Unavailable(ledger.OfferingKey{InstanceType: "m5.large", Zone: "a", CapacityType: "spot"}, start.Add(24*time.Hour)) {
		t.Fatal("nothing is of the future yet")
	}
	b.add(ledger.KindAlarmRaised, &ledger.AlarmRaised{})
	want(t, "last time", b.LastTime(), b.at)
	want(t, "attempt opened", b.Claim(name).OpenedAt, b.at)
	want(t, "registered", b.Claim(name).RegisteredAt, b.at)
	want(t, "command", b.Command(command).At, b.at)
	want(t, "drain", b.Drain("n").At, b.at)
	want(t, "verdict", b.Verdict("u1").Since, b.at)
	want(t, "excluded for its time", len(b.Verdict("u1").ExcludedAt(b.at.Add(ledger.ExclusionTime-1))), 1)
	want(t, "excluded no longer", len(b.Verdict("u1").ExcludedAt(b.at.Add(ledger.ExclusionTime))), 0)
	want(t, "control", b.ControlAt(), b.at)
	want(t, "offerings marked after the longest backoff", len(b.UnavailableOfferings(b.at.Add(30*time.Minute))), 0)
}
