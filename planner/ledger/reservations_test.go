package ledger

import (
	"math"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/types"
)

// TestReservationsCountWhatEC2DoesNotKnowYet follows ec2 §2.5: one less with each launch since EC2 was asked,
// one more when an instance is gone, none once EC2 refuses.
func TestReservationsCountWhatEC2DoesNotKnowYet(t *testing.T) {
	start := time.Date(2026, 4, 1, 12, 0, 0, 0, time.UTC)
	at := func(minutes int) time.Time { return start.Add(time.Duration(minutes) * time.Minute) }
	l := New("log")
	seq := uint64(0)
	apply := func(minute int, kind Kind, payload any) {
		t.Helper()
		seq++
		if err := l.Apply(Entry{Seq: seq, Kind: kind, Time: at(minute), Now: at(minute), Payload: payload}); err != nil {
			t.Fatal(err)
		}
	}
	want := func(sentence string, free int64, asked int, n int64) {
		t.Helper()
		if got := l.ReservationFree("cr-1", free, at(asked), 0); got != n {
			t.Errorf("%s: %d free, want %d", sentence, got, n)
		}
	}
	launch := func(minute int, claim, id string) {
		t.Helper()
		apply(minute, KindLaunchRequested, &LaunchRequested{Claim: claim, UID: types.UID(claim), Attempt: 1})
		apply(minute, KindLaunched, &Launched{Claim: claim, UID: types.UID(claim), Attempt: 1, InstanceID: "i-" + claim, CapacityType: "reserved", ReservationID: id})
	}
	want("nothing recorded", 3, 0, 3)
	launch(1, "a", "cr-1")
	launch(2, "b", "cr-1")
	launch(2, "c", "cr-2")
	want("two launches since EC2 was asked", 3, 0, 1)
	want("EC2 was asked between them", 2, 1, 1)
	want("EC2 was asked after them", 1, 2, 1)
	want("without limit stays so", math.MaxInt64, 0, math.MaxInt64)
	apply(3, KindInstanceTerminated, &InstanceTerminated{Claim: "a", InstanceID: "i-a"})
	apply(3, KindInstanceTerminated, &InstanceTerminated{Claim: "a", InstanceID: "i-a"})
	want("one is gone, said twice", 3, 0, 2)
	apply(4, KindLaunchFailed, &LaunchFailed{Claim: "d", Attempt: 1, Class: "no-capacity", Unavailable: []FailedOffering{
		{InstanceType: "m5.large", Zone: "a", CapacityType: "reserved", Code: "ReservationCapacityExceeded", ReservationID: "cr-1"}}})
	want("EC2 has refused since", 9, 3, 0)
	want("without limit is over when EC2 refuses", math.MaxInt64, 3, 0)
	want("EC2 was asked after it refused", 9, 5, 9)
	apply(6, KindInstanceTerminated, &InstanceTerminated{Claim: "b", InstanceID: "i-b"})
	want("one is gone since EC2 refused", 9, 3, 1)
	if k := l.UnavailableOfferings(at(4)); len(k) != 0 {
		t.Errorf("a full reservation marked offerings: %v", k)
	}
	restored, err := Restore(must(l.Checkpoint()))
	if err != nil || restored.ReservationFree("cr-1", 9, at(3), 0) != 1 || restored.Digest() != l.Digest() {
		t.Errorf("restored: %v, %d free", err, restored.ReservationFree("cr-1", 9, at(3), 0))
	}
	launch(60, "e", "cr-1")
	if n := len(l.reservation("cr-1").Changes); n != 1 {
		t.Errorf("%d changes are kept after an hour, want 1", n)
	}
}

// TestReservationsAllowForClocks: whose clock is ahead by less than apart counts at what is a later time for
// the records, and has not seen what they say of the seconds before.
func TestReservationsAllowForClocks(t *testing.T) {
	start := time.Date(2026, 4, 1, 12, 0, 0, 0, time.UTC)
	second := func(n int) time.Time { return start.Add(time.Duration(n) * time.Second) }
	l := New("log")
	var seq uint64
	apply := func(at int, kind Kind, payload any) {
		t.Helper()
		seq++
		if err := l.Apply(Entry{Seq: seq, Kind: kind, Time: second(at), Now: second(at), Payload: payload}); err != nil {
			t.Fatal(err)
		}
	}
	apply(1, KindLaunchRequested, &LaunchRequested{Claim: "a", UID: "a", Attempt: 1})
	apply(10, KindLaunched, &Launched{Claim: "a", UID: "a", Attempt: 1, InstanceID: "i-a", CapacityType: "reserved", ReservationID: "cr-1"})
	want := func(sentence string, free int64, asked int, apart time.Duration, n int64) {
		t.Helper()
		if got := l.ReservationFree("cr-1", free, second(asked), apart); got != n {
			t.Errorf("%s: %d free, want %d", sentence, got, n)
		}
	}
	want("counted 4 s after the launch", 1, 14, ClockTolerance, 0)
	want("counted 4 s after the launch, by the same clock", 1, 14, 0, 1)
	want("counted 6 s after the launch", 1, 16, ClockTolerance, 1)
	apply(20, KindInstanceTerminated, &InstanceTerminated{Claim: "a", InstanceID: "i-a"})
	want("an end before the count is in it", 1, 22, ClockTolerance, 1)
	apply(30, KindLaunchFailed, &LaunchFailed{Claim: "b", Attempt: 1, Class: "no-capacity", Unavailable: []FailedOffering{
		{InstanceType: "m5.large", Zone: "a", CapacityType: "reserved", Code: "ReservationCapacityExceeded", ReservationID: "cr-1"}}})
	want("counted 4 s after a refusal", 1, 34, ClockTolerance, 0)
	want("counted 6 s after a refusal", 1, 36, ClockTolerance, 1)
}

func must(b []byte, err error) []byte {
	if err != nil {
		panic(err)
	}
	return b
}
