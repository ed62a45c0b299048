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
	forTwo := entry(0, &ledger.ProvisioningPlanned{Claims: []ledger.PlannedClaim{{NodePool: "p", Pods: []ledger.PodRef{{Namespace: "shop", Name: "web"}, {Namespace: "shop", Name: "db"}}}}})
	forTwo.Seq = 7
	made := ledger.ClaimName("log", "p", 7, 0)
	entries := []ledger.Entry{forTwo, entry(0, &ledger.FleetAnswered{Launched: []ledger.Launched{*launched(made, "i-4", 200_000), *launched("c", "i-5", 50_000)}}), entry(0, launched("a", "i-1", 100_000)), entry(0, launched("b", "i-2", 40_000)), entry(0, launched("free", "i-3", 0)), shadow,
		entry(time.Minute, &ledger.ClaimRegistered{Claim: "a", Node: "n"}), entry(90*time.Minute, &ledger.InstanceTerminated{Claim: "a", InstanceID: "i-1"})}
	over := []string{"cost over its life: $0.1500, m5.large spot for 1h30m0s at $0.1000/h"}
	for subject, want := range map[string][]string{
		"node/n": over, "claim/a": over, "instance/i-1": over, "claim/b": {"cost so far: $0.1200, m5.large spot for 3h0m0s at $0.0400/h"},
		"pod/shop/web": {"cost so far: $0.6000, m5.large spot for 3h0m0s at $0.2000/h, made for 2 pod(s): $0.3000 for each"}, "pod/shop/other": nil,
		"claim/c":    {"cost so far: $0.1500, m5.large spot for 3h0m0s at $0.0500/h"},
		"claim/free": nil, "node/other": nil, "pod/n": nil, "pool/a": nil,
	} {
		if got := CostOf(entries, "log", subject, at.Add(3*time.Hour)); !slices.Equal(got, want) {
			t.Errorf("%s: %q, want %q", subject, got, want)
		}
	}
}
