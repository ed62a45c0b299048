// Package gone says which nodes of a command are gone, which are not there yet, and which are not needed. It
// is for package disrupt alone; its rules are tested there.
package gone

import (
	"fmt"
	"slices"

	"millwright/planner"
	"millwright/planner/claim"
	"millwright/planner/ledger"
	"millwright/planner/options"
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

// ScaledDown reports that a claim of a NodePool goes, or is gone, because the NodePool is static and is to
// have fewer nodes.
func ScaledDown(s *planner.Snapshot, name, nodePool string) bool {
	if c := s.Ledger.Claim(name); c != nil {
		return c.Doomed != nil && c.Doomed.Reason == claim.ReasonScaledDown
	}
	pool := s.World.NodePool(nodePool)
	if pool == nil || pool.Spec.Replicas == nil || s.Options.Revision < options.Revision8 {
		return false
	}
	staying := int64(0)
	for _, n := range s.StateNodes() {
		doomed := n.Ledger != nil && n.Ledger.Doomed != nil || n.Claim != nil && n.Claim.DeletionTimestamp != nil
		if n.NodePool == nodePool && !doomed {
			staying++
		}
	}
	return staying > *pool.Spec.Replicas
}

// Unused are the replacements of a command that no pod runs on, and that no pod waits for that would not stay
// where it is without the command. Those of commands by the method static are counted by their NodePool.
func Unused(s *planner.Snapshot, cmd *ledger.Command, static string) (list []ledger.ExcessClaim) {
	if cmd.Started.Method == static {
		return nil
	}
	wanted := map[string]bool{}
	for _, p := range s.World.PendingPods() {
		if v := s.Ledger.Verdict(p.UID); v != nil && p.Active() {
			wanted["claim/"+v.Claim], wanted["node/"+v.Node] = true, true
		}
	}
	for i, r := range cmd.Started.Replacements {
		name := s.Ledger.ClaimName(r.NodePool, cmd.Seq, i)
		c := s.Ledger.Claim(name)
		if c == nil || c.Doomed != nil || wanted["claim/"+name] {
			continue
		}
		if o := s.World.NodeClaim(name); o != nil && o.DeletionTimestamp != nil {
			continue // it goes already
		}
		if n := s.StateNodeOfClaim(name); n != nil && (wanted["node/"+n.Name] || slices.ContainsFunc(n.Pods, planner.IsReschedulable)) {
			continue
		}
		list = append(list, ledger.ExcessClaim{Claim: name, UID: c.UID, Reason: claim.ReasonWithdrawn})
	}
	return list
}
