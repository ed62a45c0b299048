package ledger_test

import (
	"testing"
	"time"

	"millwright/planner/ledger"
)

// A record from the future is over as soon as the next one is folded: nothing waits, or stays marked, until
// its time has come. The rules: DESIGN §2.
func TestTimesOfTheFutureAreBroughtBack(t *testing.T) {
	const ahead = 31 * 24 * time.Hour
	b := open(t)
	seq := b.addRecord(ledger.KindProvisioningPlanned, &ledger.ProvisioningPlanned{Claims: []ledger.PlannedClaim{{NodePool: "general"}}})
	name := ledger.ClaimName(logID, "general", seq, 0)
	pod := ledger.PodRef{UID: "u1", Namespace: "d", Name: "p"}
	b.addRecord(ledger.KindClaimCreated, &ledger.ClaimCreated{Claim: name, UID: "c1"})
	b.at = start.Add(ahead)
	b.addRecord(ledger.KindLaunchRequested, &ledger.LaunchRequested{Claim: name, UID: "c1", Attempt: 1})
	b.addRecord(ledger.KindLaunchFailed, &ledger.LaunchFailed{Claim: name, UID: "c1", Attempt: 1, Unavailable: []ledger.FailedOffering{{InstanceType: "m5.large", Zone: "a", CapacityType: "spot"}}})
	b.addRecord(ledger.KindLaunchRequested, &ledger.LaunchRequested{Claim: name, UID: "c1", Attempt: 2})
	b.addRecord(ledger.KindClaimRegistered, &ledger.ClaimRegistered{Claim: name, Node: "n"})
	b.addRecord(ledger.KindDrainStarted, &ledger.DrainStarted{Node: "n"})
	b.addRecord(ledger.KindSurgeDecided, &ledger.SurgeDecided{Node: "n", Owners: []ledger.SurgedOwner{{Pods: []ledger.PodRef{pod}, Until: b.at.Add(time.Minute)}}})
	b.addRecord(ledger.KindProvisioningPlanned, &ledger.ProvisioningPlanned{Placements: []ledger.Placement{{Node: "n", Pods: []ledger.PodRef{pod}}}})
	b.addRecord(ledger.KindProvisioningPlanned, &ledger.ProvisioningPlanned{Excluded: []ledger.Exclusion{{Node: "n", Pods: []ledger.PodRef{pod}}}})
	command := ledger.CommandID(logID, b.addRecord(ledger.KindCommandStarted, &ledger.CommandStarted{}))
	b.addRecord(ledger.KindControlChanged, &ledger.ControlChanged{By: "me"})
	b.at = start.Add(time.Minute)
	if b.Command(command).At.Before(start.Add(ahead)) || !b.Unavailable(ledger.OfferingKey{InstanceType: "m5.large", Zone: "a", CapacityType: "spot"}, start.Add(24*time.Hour)) {
		t.Fatal("nothing is of the future yet")
	}
	b.addRecord(ledger.KindAlarmRaised, &ledger.AlarmRaised{})
	want(t, "last time", b.LastTime(), b.at)
	want(t, "attempt opened", b.Claim(name).OpenedAt, b.at)
	want(t, "registered", b.Claim(name).RegisteredAt, b.at)
	want(t, "command", b.Command(command).At, b.at)
	want(t, "drain", b.Drain("n").At, b.at)
	want(t, "surge", b.Drain("n").Surges["u1"].At, b.at)
	want(t, "surge for the longest time at most", b.Drain("n").Surges["u1"].Running(b.at.Add(ledger.SurgeWithinMax)), false)
	want(t, "verdict", b.Verdict("u1").Since, b.at)
	want(t, "excluded for its time", len(b.Verdict("u1").ExcludedAt(b.at.Add(ledger.ExclusionTime-1))), 1)
	want(t, "excluded no longer", len(b.Verdict("u1").ExcludedAt(b.at.Add(ledger.ExclusionTime))), 0)
	want(t, "control", b.ControlAt(), b.at)
	want(t, "offerings marked after the longest backoff", len(b.UnavailableOfferings(b.at.Add(30*time.Minute))), 0)
}

// An operator's clock has no witnesses: a rejection lasts from its record's time, as far as the records
// around it bear that out, and what it says of the time changes nothing else.
func TestARejectionLastsFromWhenItWasGiven(t *testing.T) {
	const month, life = 30 * 24 * time.Hour, 24 * time.Hour
	for name, c := range map[string]struct {
		off         time.Duration // of the operator's clock
		before, end time.Time     // when the rejection ends, until the next record and from then on
	}{
		"a clock that is right":  {0, start.Add(time.Hour + life), start.Add(time.Hour + life)},
		"one a month ahead":      {month, start.Add(time.Hour + month + life), start.Add(2*time.Hour + life)},
		"one a month behind":     {-month, start.Add(life), start.Add(life)},
		"one some minutes ahead": {5 * time.Minute, start.Add(time.Hour + 5*time.Minute + life), start.Add(time.Hour + 5*time.Minute + life)},
	} {
		t.Run(name, func(t *testing.T) {
			b := open(t)
			seq := b.addRecord(ledger.KindProvisioningPlanned, &ledger.ProvisioningPlanned{Claims: []ledger.PlannedClaim{{NodePool: "general"}}})
			claim := ledger.ClaimName(logID, "general", seq, 0)
			b.addRecord(ledger.KindClaimCreated, &ledger.ClaimCreated{Claim: claim, UID: "c1"})
			b.addRecord(ledger.KindLaunchRequested, &ledger.LaunchRequested{Claim: claim, UID: "c1", Attempt: 1})
			id := ledger.CommandID(logID, b.addRecord(ledger.KindCommandProposed, &ledger.CommandProposed{Expires: start.Add(3 * life)}))
			b.at = start.Add(time.Hour + c.off)
			b.addRecord(ledger.KindProposalAnswered, &ledger.ProposalAnswered{ID: id, By: "ann", Why: "no", For: life, Until: b.at.Add(life)})
			want(t, "ends", b.Proposal(id).Answer.Until, c.before)
			want(t, "last time", b.LastTime(), start)
			for range 3 { // later records do not put it off
				b.at = b.at.Add(time.Hour)
				if c.off != 0 {
					b.at, c.off = start.Add(2*time.Hour), 0
				}
				b.addRecord(ledger.KindAlarmRaised, &ledger.AlarmRaised{})
				want(t, "ends", b.Proposal(id).Answer.Until, c.end)
			}
			want(t, "a launch that was opened before", b.Claim(claim).OpenedAt, start)
			want(t, "the proposal was made", b.Proposal(id).At, start)
		})
	}
}

// A disruptor's clock that was far ahead leaves neither a proposal that waits for a month nor evictions that
// count for one.
func TestProposalsAndEvictionsOfTheFutureAreBroughtBack(t *testing.T) {
	const ahead = 31 * 24 * time.Hour
	b := open(t)
	b.at = start.Add(ahead)
	id := ledger.CommandID(logID, b.addRecord(ledger.KindCommandProposed, &ledger.CommandProposed{Expires: b.at.Add(time.Hour)}))
	b.addRecord(ledger.KindCommandStarted, &ledger.CommandStarted{Candidates: []ledger.Candidate{{NodePool: "p", Pods: []ledger.PodRef{{UID: "u"}}}}})
	b.at = start.Add(time.Minute)
	b.addRecord(ledger.KindAlarmRaised, &ledger.AlarmRaised{})
	want(t, "made", b.Proposal(id).At, b.at)
	want(t, "expires", b.Proposal(id).Proposed.Expires, b.at.Add(time.Hour))
	pods, until := b.Evictions("p", b.at.Add(59*time.Minute))
	want(t, "evictions", pods, 1)
	want(t, "counted until", until, b.at.Add(time.Hour))
	pods, _ = b.Evictions("p", b.at.Add(time.Hour))
	want(t, "evictions an hour later", pods, 0)
}
