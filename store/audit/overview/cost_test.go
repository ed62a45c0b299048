package overview

import (
	"slices"
	"testing"
	"time"

	"millwright/planner/ledger"
)

func TestCostOverALife(t *testing.T) {
	at := time.Date(2026, 3, 2, 10, 0, 0, 0, time.UTC)
	entry := func(after time.Duration, payload any) ledger.Entry {
		return ledger.Entry{Time: at.Add(after), Mode: ledger.ModeActive, Payload: payload}
	}
	launched := func(claim, instance string, price int64) *ledger.Launched {
		return &ledger.Launched{Claim: claim, InstanceID: instance, InstanceType: "m5.large", CapacityType: "spot", Price: price}
	}
	shadow := entry(0, launched("a", "i-9", 900_000))
	shadow.Mode = ledger.ModeShadow
	entries := []ledger.Entry{entry(0, launched("a", "i-1", 100_000)), entry(0, launched("b", "i-2", 40_000)), entry(0, launched("free", "i-3", 0)), shadow,
		entry(time.Minute, &ledger.ClaimRegistered{Claim: "a", Node: "n"}), entry(90*time.Minute, &ledger.InstanceTerminated{Claim: "a", InstanceID: "i-1"})}
	over := []string{"cost over its life: $0.1500, m5.large spot for 1h30m0s at $0.1000/h"}
	for subject, want := range map[string][]string{
		"node/n": over, "claim/a": over, "instance/i-1": over, "claim/b": {"cost so far: $0.1200, m5.large spot for 3h0m0s at $0.0400/h"},
		"claim/free": nil, "node/other": nil, "pod/n": nil, "pool/a": nil,
	} {
		if got := CostOf(entries, subject, at.Add(3*time.Hour)); !slices.Equal(got, want) {
			t.Errorf("%s: %q, want %q", subject, got, want)
		}
	}
}
