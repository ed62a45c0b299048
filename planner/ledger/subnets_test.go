package ledger

import (
	"fmt"
	"slices"
	"testing"
	"time"
)

// TestASubnetWithoutAddressesIsMarkedForAWhile: not its zone's offerings, and longer if it is refused again.
// The rules: ec2 §4.3.
func TestASubnetWithoutAddressesIsMarkedForAWhile(t *testing.T) {
	start := time.Date(2026, 4, 1, 12, 0, 0, 0, time.UTC)
	at := func(minutes int) time.Time { return start.Add(time.Duration(minutes) * time.Minute) }
	l, seq := New("log"), uint64(0)
	refuse := func(minute int, ids ...string) {
		t.Helper()
		var failed []FailedOffering
		for _, id := range ids {
			failed = append(failed, FailedOffering{Zone: "a", Code: "InsufficientFreeAddressesInSubnet", SubnetID: id})
		}
		seq++
		if err := l.Apply(Entry{Seq: seq, Kind: KindLaunchFailed, Time: at(minute), Now: at(minute), Payload: &LaunchFailed{Claim: "c", Unavailable: failed}}); err != nil {
			t.Fatal(err)
		}
	}
	want := func(sentence string, minute int, ids ...string) {
		t.Helper()
		if got := l.UnavailableSubnets(at(minute)); !slices.Equal(got, ids) {
			t.Errorf("%s: marked are %v, want %v", sentence, got, ids)
		}
	}
	want("at first", 0)
	refuse(0, "subnet-2", "subnet-1")
	want("two are full", 2, "subnet-1", "subnet-2")
	want("after three minutes", 3)
	if k := l.UnavailableOfferings(at(1)); len(k) != 0 {
		t.Errorf("offerings are marked: %v", k)
	}
	refuse(3, "subnet-1")
	want("again, twice as long", 8, "subnet-1")
	want("no longer", 9)
	restored, err := Restore(must(l.Checkpoint()))
	if err != nil || restored.Digest() != l.Digest() || !slices.Equal(restored.UnavailableSubnets(at(8)), []string{"subnet-1"}) {
		t.Errorf("restored: %v, %v", err, restored.UnavailableSubnets(at(8)))
	}
	refuse(100, "subnet-3")
	if n := l.subnets.Len(); n != 1 {
		t.Errorf("%d subnets are remembered after an hour and a half, want 1", n)
	}
	for i := range subnetsMax {
		refuse(100+i/1000, fmt.Sprintf("subnet-x%04d", i))
	}
	if n := l.subnets.Len(); n != subnetsMax {
		t.Errorf("%d subnets are remembered, want %d", n, subnetsMax)
	}
}

// TestASubnetMarkFromTheFutureEnds as soon as another record shows that the clock was off.
func TestASubnetMarkFromTheFutureEnds(t *testing.T) {
	start := time.Date(2026, 4, 1, 12, 0, 0, 0, time.UTC)
	l := New("log")
	for i, when := range []time.Time{start.Add(31 * 24 * time.Hour), start} {
		failed := &LaunchFailed{Claim: "c"}
		if i == 0 {
			failed.Unavailable = []FailedOffering{{Zone: "a", Code: "InsufficientFreeAddressesInSubnet", SubnetID: "subnet-1"}}
		}
		if err := l.Apply(Entry{Seq: uint64(i + 1), Kind: KindLaunchFailed, Time: when, Now: when, Payload: failed}); err != nil {
			t.Fatal(err)
		}
	}
	if got := l.UnavailableSubnets(start.Add(31 * time.Minute)); len(got) != 0 {
		t.Errorf("still marked: %v", got)
	}
}
