package ledger_test

import (
	"encoding/json"
	"fmt"
	"testing"
	"time"

	"millwright/events"
	"millwright/planner/ledger"
	"millwright/planner/options"
)

// sized is the size of a Ledger's checkpoint.
func sized(t *testing.T, l *ledger.Ledger) int {
	t.Helper()
	data, err := l.Checkpoint()
	if err != nil {
		t.Fatal(err)
	}
	return len(data)
}

// TestWhatIsLongOverIsForgotten: marks of offerings, reservations and NodePools that are gone, and
// incarnations of the stream leave the Ledger, however many there ever were.
func TestWhatIsLongOverIsForgotten(t *testing.T) {
	l := ledger.New(logID)
	add := func(at time.Time, kind ledger.Kind, payload any, incarnation string) {
		t.Helper()
		e := ledger.Entry{Seq: l.Seq() + 1, Time: at, Now: at, Mode: ledger.ModeActive, Kind: kind, Payload: payload}
		e.Position = events.Position{Incarnation: incarnation, Sequence: 7}
		if err := l.Apply(e); err != nil {
			t.Fatal(err)
		}
	}
	day := func(n int) {
		at := start.Add(time.Duration(n) * 25 * time.Hour)
		add(at, ledger.KindLaunchFailed, &ledger.LaunchFailed{Claim: "c", Unavailable: []ledger.FailedOffering{
			{InstanceType: fmt.Sprintf("m%d.large", n), Zone: "a", CapacityType: "spot", Code: "InsufficientInstanceCapacity"},
			{ReservationID: fmt.Sprintf("cr-%05d", n), Code: "ReservationCapacityExceeded"},
		}}, fmt.Sprintf("stream-%d", n))
		command := ledger.CommandID(logID, l.Seq()+1)
		add(at, ledger.KindCommandStarted, &ledger.CommandStarted{Candidates: []ledger.Candidate{{NodePool: fmt.Sprintf("pool-%05d", n), Pods: []ledger.PodRef{{UID: "u"}}}}}, "")
		add(at, ledger.KindCommandConfirmed, &ledger.CommandConfirmed{ID: command}, "")
		add(at, ledger.KindCommandRolledBack, &ledger.CommandRolledBack{ID: command, Failing: []string{fmt.Sprintf("pool-%05d", n)}}, "")
		add(at, ledger.KindLaunched, &ledger.Launched{Claim: "c", InstanceType: "m5.large", ReservationID: fmt.Sprintf("cb-%05d", n)}, fmt.Sprintf("stream-%d", n))
	}
	for n := range 100 {
		day(n)
	}
	before := sized(t, l)
	for n := 100; n < 2000; n++ {
		day(n)
	}
	if after := sized(t, l); after > before+200 {
		t.Errorf("the checkpoint has grown from %d to %d bytes", before, after)
	}
	now := start.Add(1999 * 25 * time.Hour)
	if l.FailingUntil("pool-01999").Before(now) || !l.FailingUntil("pool-01000").IsZero() {
		t.Error("the NodePools whose replacements failed lately are not those remembered")
	}
	if got := l.UnavailableOfferings(now); len(got) != 1 || got[0].InstanceType != "m1999.large" {
		t.Errorf("marked: %v", got)
	}
	if free := l.ReservationFree("cr-01999", 5, now, 0); free != 0 {
		t.Errorf("%d free in a reservation that was just full", free)
	}
	if l.HighestPosition("stream-1999") != 7 || l.HighestPosition("stream-1990") != 7 || l.HighestPosition("stream-7") != 0 {
		t.Error("the newest incarnations are not those remembered")
	}
}

// Roll-outs are forgotten a month after their last command, and the oldest if there are too many; a halted
// one outlasts the month.
func TestRolloutsAreBounded(t *testing.T) {
	l := ledger.New(logID)
	started := func(at time.Time, pool string, halts bool) {
		t.Helper()
		id := ledger.CommandID(logID, l.Seq()+1)
		for _, x := range []struct {
			kind    ledger.Kind
			payload any
		}{
			{ledger.KindCommandStarted, &ledger.CommandStarted{Wave: &ledger.Wave{Target: "t", Number: 1, Nodes: 1}, Candidates: []ledger.Candidate{{NodePool: pool}}}},
			{ledger.KindCommandAbandoned, &ledger.CommandRolledBack{ID: id, HaltsRollout: halts}},
		} {
			if err := l.Apply(ledger.Entry{Seq: l.Seq() + 1, Time: at, Now: at, Mode: ledger.ModeActive, Kind: x.kind, Payload: x.payload}); err != nil {
				t.Fatal(err)
			}
		}
	}
	begun := func(pool string) bool { _, ok := l.Rollout(pool); return ok }
	month := 31 * 24 * time.Hour
	started(start, "halted", true)
	started(start, "old", false)
	started(start.Add(month), "new", false)
	if begun("old") || !begun("new") || !begun("halted") {
		t.Errorf("after a month: %v", l.Rollouts())
	}
	if r, _ := l.Rollout("halted"); r.Halted == nil || r.Halted.Reason == "" || r.Replaced != 0 {
		t.Errorf("halted without a reason: %+v", r)
	}
	for n := range 1000 {
		started(start.Add(month+time.Duration(n)*time.Second), fmt.Sprintf("pool-%04d", n), true)
	}
	if n := len(l.Rollouts()); n != 1000 || begun("halted") || begun("new") || !begun("pool-0999") {
		t.Errorf("%d roll-outs, the oldest among them: %t, %t", n, begun("halted"), begun("new"))
	}
}

// That a command has succeeded is an outcome, of no decision's time: its roll-out was forgotten, and its
// waves began anew, as soon as a wave of another NodePool began.
func TestARolloutOutlastsTheNextOfAnotherNodePool(t *testing.T) {
	for revision, want := range map[int]int{0: 0, options.Revision1: 1} {
		l, o := ledger.New(logID), options.Present()
		o.Revision = revision
		apply := func(kind ledger.Kind, now time.Time, payload any) {
			t.Helper()
			if err := l.Apply(ledger.Entry{Seq: l.Seq() + 1, Time: start, Now: now, Mode: ledger.ModeActive, Kind: kind, Payload: payload}); err != nil {
				t.Fatal(err)
			}
		}
		text, err := json.Marshal(o)
		if err != nil {
			t.Fatal(err)
		}
		apply(ledger.KindOptionsSet, time.Time{}, &ledger.OptionsSet{Options: text})
		for _, pool := range []string{"a", "b"} {
			apply(ledger.KindCommandStarted, start, &ledger.CommandStarted{Wave: &ledger.Wave{Target: "t", Number: 1, Nodes: 1}, Candidates: []ledger.Candidate{{NodePool: pool}}})
			apply(ledger.KindCommandSucceeded, time.Time{}, &ledger.CommandSucceeded{ID: ledger.CommandID(logID, l.Seq())})
		}
		if r, _ := l.Rollout("a"); r.Replaced != want {
			t.Errorf("revision %d: %d nodes are known to be replaced, want %d", revision, r.Replaced, want)
		}
	}
}
