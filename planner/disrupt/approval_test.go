package disrupt_test

import (
	"testing"
	"time"

	karpv1 "millwright/api/karpenter/v1"
	"millwright/planner"
	"millwright/planner/disrupt"
	"millwright/planner/ledger"
	pt "millwright/planner/plannertest"
)

// asked is a cluster in which the pod of a may go to b, and a person is asked for it. It returns the
// proposal.
func asked(t *testing.T) (*pt.Cluster, *ledger.Proposal) {
	t.Helper()
	c := busy(pt.Pool("p", onDemand, pt.Budgets()), []string{"a", "b"}, sized("x", "a", "1", "1Gi"), sized("y", "b", "1", "1Gi"), sized("z", "b", "1", "1Gi", protected))
	c.See(pt.Policy("ask", `{approval: {reasons: [Underutilized], expireAfter: 2h}}`))
	s := c.Snapshot()
	d, _ := disrupt.Plan(s)
	if d == nil || d.Kind != ledger.KindCommandProposed {
		t.Fatalf("decision is %+v, want a proposal", d)
	}
	want(t, "advances", len(d.Advances), 0)
	c.Decide(s, d)
	return c, c.Snapshot().Ledger.Proposals()[0]
}

func answer(c *pt.Cluster, a ledger.ProposalAnswered) *ledger.Proposal {
	c.Record(ledger.KindProposalAnswered, &a, ledger.CommandAggregate(a.ID))
	return c.Snapshot().Ledger.Proposal(a.ID)
}

func TestAProposalChangesNothingAndIsMadeOnce(t *testing.T) {
	c, x := asked(t)
	s := c.Snapshot()
	want(t, "commands", len(s.Ledger.Commands()), 0)
	want(t, "node a goes", s.StateNode("a").MarkedForDeletion, false)
	want(t, "policies", x.Proposed.Policies[0], "ask")
	want(t, "expires", x.Proposed.Expires.Sub(s.Now), 2*time.Hour)
	d, r := disrupt.Plan(s)
	want(t, "asked again", d == nil, true)
	want(t, "why a stays", r.Nodes[0].Blocked.Message, "Command "+x.ID+" waits for approval until 2026-03-02T13:00:00Z")
	want(t, "what b waits for", r.Nodes[1].Blocked.Cause, disrupt.CausePodAnnotation)
	want(t, "due", disrupt.AnswerDecision(s, x) == nil, true)
}

func TestAnApprovedProposalBecomesACommand(t *testing.T) {
	c, x := asked(t)
	x = answer(c, ledger.ProposalAnswered{ID: x.ID, Approved: true, By: "ann", Why: "fine"})
	late := answer(c, ledger.ProposalAnswered{ID: x.ID, By: "bob", Why: "too late"})
	want(t, "the first answer counts", late.Answer.By, "ann")
	s := c.Snapshot()
	d := disrupt.AnswerDecision(s, x)
	want(t, "command", told(d), "single a; x to b")
	want(t, "kind", d.Kind, ledger.KindCommandMovesStarted)
	want(t, "names the proposal", d.Payload.(*ledger.CommandStarted).Proposal, x.ID)
	c.Decide(s, d)
	want(t, "proposals", len(c.Snapshot().Ledger.Proposals()), 0)
	want(t, "commands", len(c.Snapshot().Ledger.Commands()), 1)
}

// ended is the reason for which a proposal is ended; "" if it waits, "started" if it became a command.
func ended(d *planner.Decision) string {
	switch {
	case d == nil:
		return ""
	case d.Kind == ledger.KindProposalEnded:
		return d.Payload.(*ledger.ProposalEnded).Reason
	}
	return "started"
}

func TestAnApprovalThatHoldsNoMoreSaysWhy(t *testing.T) {
	for name, tc := range map[string]struct {
		change func(c *pt.Cluster)
		want   string
	}{
		"nothing has changed": {func(*pt.Cluster) {}, "started"},
		"there is no room any more": {func(c *pt.Cluster) { c.See(sized("w", "b", "1500m", "1Gi", protected)) },
			"it was approved and no longer holds: its pods would need new nodes"},
		"a pod came": {func(c *pt.Cluster) { c.See(sized("w", "a", "100m", "1Gi", protected)) },
			`it was approved and no longer holds: node a: pod default/w: Pod has "karpenter.sh/do-not-disrupt" annotation (Pod=default/w)`},
		"the node is gone":     {func(c *pt.Cluster) { c.Gone(pt.Node("a", pt.InPool("p")), pt.Claim("a-claim", "a", "p")) }, "node a is gone"},
		"a budget is used up":  {func(c *pt.Cluster) { c.See(pt.Pool("p", onDemand, pt.Budgets(karpv1.Budget{Nodes: "0"}))) }, ""},
		"a pause":              {func(c *pt.Cluster) { c.See(pt.Policy("b", `{pause: {until: "2026-03-02T12:00:00Z"}}`)) }, ""},
		"it has expired":       {func(c *pt.Cluster) { c.Advance(2 * time.Hour) }, "it was not carried out before 2026-03-02T13:00:00Z"},
		"consolidation is off": {func(c *pt.Cluster) { c.See(pt.Pool("p", onDemand, pt.ConsolidateAfter("Never"))) }, `it was approved and no longer holds: node a: NodePool "p" has consolidation disabled`},
	} {
		t.Run(name, func(t *testing.T) {
			c, x := asked(t)
			x = answer(c, ledger.ProposalAnswered{ID: x.ID, Approved: true, By: "ann", Why: "fine"})
			tc.change(c)
			want(t, "decision", ended(disrupt.AnswerDecision(c.Snapshot(), x)), tc.want)
		})
	}
}

func TestARejectedProposalIsNotMadeAgainForAWhile(t *testing.T) {
	c, x := asked(t)
	x = answer(c, ledger.ProposalAnswered{ID: x.ID, By: "ann", Why: "release day", Until: c.Snapshot().Now.Add(time.Hour)})
	s := c.Snapshot()
	d, r := disrupt.Plan(s)
	want(t, "decision", d == nil, true)
	want(t, "why", r.Nodes[0].Blocked.Message, "Command "+x.ID+" was rejected by ann until 2026-03-02T12:00:00Z: release day")
	want(t, "due", ended(disrupt.AnswerDecision(s, x)), "")
	c.Advance(time.Hour)
	s = c.Snapshot()
	d = disrupt.AnswerDecision(s, x)
	want(t, "due later", ended(d), "its rejection is over")
	c.Decide(s, d)
	d, _ = disrupt.Plan(c.Snapshot())
	want(t, "asked again", d.Kind, ledger.KindCommandProposed)
}

// Reasons that nobody has to approve go on, for the same node too.
func TestOtherReasonsGoOnWhileAProposalWaits(t *testing.T) {
	c, _ := asked(t)
	claim := pt.Claim("a-claim", "a", "p")
	claim.Status.Conditions = append(claim.Status.Conditions, pt.True(karpv1.ConditionTypeDrifted, pt.Start))
	c.See(claim)
	d, _ := disrupt.Plan(c.Snapshot())
	want(t, "command", told(d), "drift a; x to b")
	c.AddNode("d", "p")
	c.Advance(time.Minute)
	d, _ = disrupt.Plan(c.Snapshot())
	want(t, "method", d.Payload.(*ledger.CommandStarted).Method, disrupt.MethodEmptiness)
}

// Proposals survive a checkpoint.
func TestProposalsSurviveACheckpoint(t *testing.T) {
	c, x := asked(t)
	answer(c, ledger.ProposalAnswered{ID: x.ID, Approved: true, By: "ann", Why: "fine"})
	l := c.Snapshot().Ledger
	data, err := l.Checkpoint()
	if err != nil {
		t.Fatal(err)
	}
	restored, err := ledger.Restore(data)
	if err != nil {
		t.Fatal(err)
	}
	want(t, "state", restored.Proposal(x.ID).State, ledger.ProposalApproved)
	want(t, "digest", restored.Digest(), l.Digest())
}
