package disrupt_test

import (
	"testing"
	"time"

	karpv1 "millwright/api/karpenter/v1"
	"millwright/planner/disrupt"
	"millwright/planner/ledger"
	pt "millwright/planner/plannertest"
)

// The pods of a drifted node go to one that stays, though there is room on another drifted one, from which
// they would have to move again. Only where there is no other room they go there, for a new node costs more.
func TestPodsOfDriftedNodesGoToNodesThatStay(t *testing.T) {
	for name, tc := range map[string]struct{ cpu, want string }{
		"a node that stays has room": {"1", "drift a; x to c"},
		"only a drifted one has":     {"3", "drift a; x to b"},
	} {
		t.Run(name, func(t *testing.T) {
			c := busy(pt.Pool("p", onDemand, pt.Budgets(karpv1.Budget{Nodes: "1"})), []string{"a", "b", "c"},
				sized("x", "a", "1", "1Gi"), sized("y", "b", "100m", "1Gi"), sized("z", "c", tc.cpu, "1Gi"))
			c.See(drifted("a", 0), drifted("b", time.Minute))
			d, _ := disrupt.Plan(c.Snapshot())
			want(t, "command", told(d), tc.want)
		})
	}
}

// A NodePool whose replacements fail is left alone for a while also where it would replace nodes of another
// one, and keeps no node from going whose pods do not need it.
func TestABackoffIsOfTheNodePoolThatBuys(t *testing.T) {
	first := pt.Pool("first", onDemand, pt.Budgets(karpv1.Budget{Nodes: "100%"}))
	weight := int32(10)
	first.Spec.Weight = &weight
	p := pt.Pool("p", onDemand, policy(karpv1.ConsolidationPolicyWhenEmpty), pt.Budgets(karpv1.Budget{Nodes: "100%"}))
	c := busy(p, []string{"a"}, first, sized("x", "a", "3", "8Gi"))
	c.See(drifted("a", 0))
	s := c.Snapshot()
	d, _ := disrupt.Plan(s)
	seq := c.Decide(s, d)
	want(t, "who replaces it", d.Payload.(*ledger.CommandStarted).Replacements[0].NodePool, "first")
	c.Record(ledger.KindCommandAbandoned, &ledger.CommandRolledBack{ID: ledger.CommandID(c.Ledger.LogID(), seq), Failing: []string{"first"},
		Unused: []ledger.ExcessClaim{{Claim: ledger.ClaimName(c.Ledger.LogID(), "first", seq, 0)}}})
	until := c.Ledger.FailingUntil("first")

	d, r := disrupt.Plan(c.Snapshot())
	want(t, "a command during the back-off", told(d), "")
	want(t, "cause", r.Nodes[0].Blocked.Cause, disrupt.CauseBackoff)
	want(t, "until", r.Nodes[0].Blocked.Until, until)
	want(t, "wakes in time", !r.WakeAt.IsZero() && !r.WakeAt.After(until), true)

	c.AddNode("free", "p")
	c.See(sized("f", "free", "100m", "1Gi"))
	d, _ = disrupt.Plan(c.Snapshot())
	want(t, "the command once no new node is needed", told(d), "drift a; x to free")

	c.See(sized("f", "free", "3", "1Gi"))
	c.Advance(until.Sub(c.Clock))
	d, _ = disrupt.Plan(c.Snapshot())
	want(t, "who replaces it after the back-off", d.Payload.(*ledger.CommandStarted).Replacements[0].NodePool, "first")
}
