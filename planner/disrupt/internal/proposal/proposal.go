// Package proposal makes the records by which commands are asked for. It is for package disrupt alone; its
// rules are tested there.
package proposal

import (
	"slices"

	"millwright/planner"
	"millwright/planner/disrupt/internal/policy"
	"millwright/planner/ledger"
)

// Ask turns the decision to start a command into one to ask for it: it advances nothing, for nothing is
// taken.
func Ask(s *planner.Snapshot, d *planner.Decision, started *ledger.CommandStarted, a *policy.Approval) *planner.Decision {
	d.Kind, d.Advances = ledger.KindCommandProposed, nil
	d.Payload = &ledger.CommandProposed{Command: *started, Policies: a.Policies, Expires: s.Now.Add(a.Life).UTC()}
	return d
}

// End ends a proposal, for the reason given.
func End(s *planner.Snapshot, x *ledger.Proposal, reason string) *planner.Decision {
	aggregate := ledger.CommandAggregate(x.ID)
	return &planner.Decision{Kind: ledger.KindProposalEnded, Payload: &ledger.ProposalEnded{ID: x.ID, Reason: reason}, Causation: x.Seq,
		Subjects: Subjects(x.ID, &x.Proposed.Command), Expects: s.Expect(aggregate), Advances: []string{aggregate}}
}

// Subjects of a command's records: itself and its candidates, sorted.
func Subjects(id string, command *ledger.CommandStarted) []string {
	subjects := []string{"command/" + id}
	for _, c := range command.Candidates {
		subjects = append(subjects, "node/"+c.Node, "claim/"+c.Claim)
	}
	slices.Sort(subjects)
	return slices.Compact(subjects)
}
