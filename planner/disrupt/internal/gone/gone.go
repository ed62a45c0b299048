// Package gone says which nodes of a command are gone, and which are not there yet. It is for package disrupt
// alone; its rules are tested there.
package gone

import (
	"fmt"
	"slices"

	"millwright/planner"
	"millwright/planner/claim"
	"millwright/planner/ledger"
)

// Of says which node of a command is not there any more, or is going; "" if all are there.
func Of(s *planner.Snapshot, command *ledger.CommandStarted) string {
	for _, c := range command.Candidates {
		n := s.StateNodeOfClaim(c.Claim)
		switch {
		case n == nil || n.Node == nil || n.Claim == nil || n.Claim.UID != c.ClaimUID:
			return fmt.Sprintf("node %s is gone", c.Node)
		case n.MarkedForDeletion:
			return fmt.Sprintf("node %s goes already", c.Node)
		}
	}
	return ""
}

// MayCome reports that a candidate's NodeClaim or Node is not in the World, and that nothing else says
// that it goes. If the World is older than the command, as one restored from a checkpoint by a new leader is,
// it is not gone but not there yet.
func MayCome(s *planner.Snapshot, cmd *ledger.Command) bool {
	return slices.ContainsFunc(cmd.Started.Candidates, func(c ledger.Candidate) bool {
		known := s.Ledger.Claim(c.Claim)
		if known == nil || known.Doomed != nil {
			return false
		}
		o := s.World.NodeClaim(c.Claim)
		if o != nil && (o.UID != c.ClaimUID || o.DeletionTimestamp != nil) {
			return false
		}
		n := s.StateNodeOfClaim(c.Claim)
		return n == nil || n.Node == nil
	})
}

// ScaledDown reports that a claim goes because its static NodePool is to have fewer nodes.
func ScaledDown(s *planner.Snapshot, name string) bool {
	c := s.Ledger.Claim(name)
	return c != nil && c.Doomed != nil && c.Doomed.Reason == claim.ReasonScaledDown
}
