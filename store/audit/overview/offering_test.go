package overview

import (
	"strings"
	"testing"
	"time"

	"millwright/planner/ledger"
	"millwright/store/audit"
)

// An offering's story is of the launches that it failed; the Ledger says until when it is marked.
func TestTheStoryOfAnOffering(t *testing.T) {
	now := time.Date(2026, 3, 2, 10, 0, 0, 0, time.UTC)
	failed := func(kind, zone, group string) ledger.FailedOffering {
		return ledger.FailedOffering{InstanceType: kind, Zone: zone, CapacityType: "spot", Code: "InsufficientInstanceCapacity", PlacementGroup: group}
	}
	l := ledger.New("log")
	var entries []ledger.Entry
	for i, payload := range []any{
		&ledger.Genesis{LogID: "log"},
		&ledger.LaunchFailed{Claim: "a", Class: "no-capacity", Reason: "x", Unavailable: []ledger.FailedOffering{failed("m5.large", "z1", ""), failed("m5.large", "z2", "")}},
		&ledger.LaunchFailed{Claim: "b", Class: "no-capacity", Reason: "x", Unavailable: []ledger.FailedOffering{failed("c5.large", "z1", ""), {SubnetID: "subnet-1", Zone: "z1", Code: "full"}}},
		&ledger.LaunchFailed{Claim: "c", Class: "no-capacity", Reason: "x", Unavailable: []ledger.FailedOffering{failed("m5.large", "z1", "")}},
		&ledger.LaunchFailed{Claim: "d", Class: "no-capacity", Reason: "x", Unavailable: []ledger.FailedOffering{{Zone: "z1", PlacementGroup: "group", Code: "full"}}},
	} {
		kind := ledger.KindLaunchFailed
		if i == 0 {
			kind = ledger.KindGenesis
		}
		e := ledger.Entry{Seq: uint64(i + 1), Time: now.Add(time.Duration(i) * time.Minute), Kind: kind, Mode: ledger.ModeActive, Payload: payload}
		if err := l.Apply(e); err != nil {
			t.Fatal(err)
		}
		entries = append(entries, e)
	}
	for name, want := range map[string][]uint64{
		"m5.large/z1/spot": {2, 4}, "m5.large/z2/spot": {2}, "c5.large/z1/spot": {3}, "m5.large/z1/on-demand": nil, "m5.large/z1/spot/group": {2, 4, 5},
	} {
		var got []uint64
		for _, line := range audit.Why(entries, "offering/"+name) {
			got = append(got, line.Seq)
		}
		if len(got) != len(want) || len(got) > 0 && got[len(got)-1] != want[len(want)-1] {
			t.Errorf("the story of %s has records %d, want %d", name, got, want)
		}
	}
	at := now.Add(4*time.Minute + time.Second)
	for name, want := range map[string]string{
		"m5.large/z1/spot":       "marked as unavailable until",
		"c5.large/z1/spot":       "marked as unavailable until",
		"m5.large/z2/spot":       "not marked: it was unavailable until",
		"r5.large/z1/spot":       "now: not marked as unavailable",
		"r5.large/z1/spot/group": "as part of /z1//group",
	} {
		if got := strings.Join(OfferingNow(l, name, at), "\n"); !strings.Contains(got, want) {
			t.Errorf("%s: %s", name, got)
		}
	}
	if got := OfferingNow(l, "m5.large/z1/spot", at)[0]; !strings.Contains(got, "by record 4 (InsufficientInstanceCapacity), after") {
		t.Error(got)
	}
	for _, name := range []string{"", "m5.large", "m5.large/z1", "//"} {
		if got := OfferingNow(l, name, at); got != nil {
			t.Errorf("%q is an offering: %v", name, got)
		}
	}
}
