package ledger_test

import (
	"strings"
	"testing"

	"millwright/planner/ledger"
)

func advances(names ...string) func(*ledger.Entry) {
	return func(e *ledger.Entry) { e.Advances = names }
}

func TestDeadAggregatesBelongToNothingThatIsOpen(t *testing.T) {
	b := open(t)
	b.addRecord(ledger.KindClaimAdopted, &ledger.ClaimAdopted{Claim: "open", UID: "u"}, advances("claim/open", "pool/p"))
	b.addRecord(ledger.KindClaimRegistered, &ledger.ClaimRegistered{Claim: "open", Node: "its-node"}, advances("node/its-node"))
	started := b.addRecord(ledger.KindCommandStarted, &ledger.CommandStarted{}, advances("claim/gone", "node/gone", "reservation/cr"))
	running := "command/" + ledger.CommandID(logID, started)
	b.addRecord(ledger.KindCommandConfirmed, &ledger.CommandConfirmed{}, advances(running, "command/over"))
	b.addRecord(ledger.KindDrainStarted, &ledger.DrainStarted{Node: "drained"}, advances("node/drained", ledger.CheckpointAggregate, "options", "control"))
	through := b.Seq()
	b.addRecord(ledger.KindClaimClosed, &ledger.ClaimClosed{Claim: "late"}, advances("claim/late"))
	want(t, "dead", strings.Join(b.Dead(through), " "), "claim/gone node/gone reservation/cr command/over")
	want(t, "later", strings.Join(b.Dead(b.Seq()), " "), "claim/gone node/gone reservation/cr command/over claim/late")

	b.addRecord(ledger.KindAggregatesRetired, &ledger.AggregatesRetired{Aggregates: b.Dead(through)}, advances(ledger.RetiredAggregate))
	for name, seq := range map[string]uint64{"claim/gone": 0, "node/gone": 0, "command/over": 0, "claim/open": 2, "node/its-node": 3,
		running: started + 1, "pool/p": 2, ledger.RetiredAggregate: b.Seq(), "claim/late": b.Seq() - 1} {
		want(t, name, b.Aggregate(name), seq)
	}
	want(t, "dead afterwards", len(b.Dead(through)), 0)
	b.addRecord(ledger.KindClaimClosed, &ledger.ClaimClosed{Claim: "gone"}, advances("claim/gone"))
	want(t, "a name that comes back", b.Aggregate("claim/gone"), b.Seq())
}

func TestWhatWasSaidInShadowModeIsForgotten(t *testing.T) {
	b := open(t)
	planned := &ledger.ProvisioningPlanned{Claims: []ledger.PlannedClaim{{NodePool: "p"}}}
	b.addRecord(ledger.KindProvisioningPlanned, planned, func(e *ledger.Entry) {
		e.Mode, e.Service, e.Subjects = ledger.ModeShadow, "provisioner", []string{"pod/a"}
	})
	said := func() bool {
		return b.Shadowed("provisioner", ledger.KindProvisioningPlanned, []string{"pod/a"}, planned)
	}
	b.addRecord(ledger.KindAggregatesRetired, &ledger.AggregatesRetired{})
	want(t, "said", said() && b.ShadowBytes() > 0, true)
	b.addRecord(ledger.KindAggregatesRetired, &ledger.AggregatesRetired{Shadow: true})
	want(t, "said", said(), false)
	want(t, "bytes", b.ShadowBytes(), 0)
}
