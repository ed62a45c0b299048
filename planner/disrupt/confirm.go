package disrupt

import (
	"fmt"
	"slices"

	corev1 "k8s.io/api/core/v1"

	karpv1 "millwright/api/karpenter/v1"
	"millwright/planner"
	"millwright/planner/disrupt/internal/gone"
	"millwright/planner/disrupt/internal/proposal"
	"millwright/planner/ledger"
	"millwright/planner/options"
)

// Outcome of a confirmation.
type Outcome int

const (
	// Wait: the World does not show the command's mark on all nodes yet, or something it needs is missing.
	Wait Outcome = iota
	// Confirmed: the command still holds; delete the NodeClaims.
	Confirmed
	// Rollback: give the command up.
	Rollback
	// Reduced: it holds without some of its nodes.
	Reduced
)

func (o Outcome) String() string { return [...]string{"Wait", "Confirmed", "Rollback", "Reduced"}[o] }

// Verdict on a running command.
type Verdict struct {
	Outcome Outcome `json:"Outcome"`
	// Reason of a rollback; Waiting names the nodes, or of a confirmed command the replacements, that are
	// waited for, or were when it was rolled back.
	Reason  string   `json:"Reason"`
	Waiting []string `json:"Waiting"`
	// Dropped are the nodes without which the command continues.
	Dropped []ledger.DroppedNode `json:"Dropped,omitempty"`
	// Rejection is why a command or some of its nodes were not confirmed, for its KubeEvent.
	Rejection Rejection `json:"-"`
	// Failing are the NodePools of replacements that will not come, sorted.
	Failing []string `json:"Failing,omitempty"`
}

// Rejection of what was to be consolidated, by its confirmation (reference: operations §3,
// ConsolidationRejected).
type Rejection string

const (
	RejectedByBudget     Rejection = "budget"
	RejectedByScheduling Rejection = "scheduling"
	RejectedByChurn      Rejection = "churn"
	RejectedUnknown      Rejection = "unknown"
)

// Confirm decides on a running command from a Snapshot taken after its nodes were tainted (reference:
// disruption §5 Validation): they must still be empty, drifted, or hold the pods that the command moves, be
// eligible and within the budgets; those pods must still have places. Nodes that go away for another reason
// are none of its business. A command without replacements goes on without the nodes that do not hold; any
// other is rolled back. A confirmed command waits for its replacements, and is rolled back once they will not
// come. While operators have stopped voluntary disruption it is rolled back, or waits if it has begun to take
// nodes away.
func Confirm(s *planner.Snapshot, cmd *ledger.Command) Verdict {
	if s.Ledger.Stop() != ledger.StopNone {
		return stopped(s, cmd)
	}
	if cmd.State == ledger.CommandConfirmedState {
		return awaited(s, cmd)
	}
	rest := Remaining(s, cmd)
	if len(rest) == 0 {
		return Verdict{Outcome: Confirmed}
	}
	if name, pool := s.LostReplacement(cmd); name != "" {
		v := Verdict{Outcome: Rollback, Reason: fmt.Sprintf("replacement %s was deleted", name), Failing: []string{pool}}
		if s.Options.Revision >= options.Revision8 && gone.ScaledDown(s, name, pool) {
			v.Failing = nil // nothing has failed
		}
		return v
	}
	var waiting []string
	var unmarked []ledger.DroppedNode
	for _, n := range rest {
		if !Marked(n.Node.Object, s.Ledger.LogID(), cmd.Seq) {
			waiting = append(waiting, n.Name)
			unmarked = append(unmarked, ledger.DroppedNode{Node: n.Name, Claim: n.ClaimName(), Reason: "does not show the command's mark"})
		}
	}
	check := newValidation(s, cmd)
	if reason := check.budgets(rest); reason != "" {
		return Verdict{Outcome: Rollback, Reason: reason, Rejection: RejectedByBudget}
	}
	dropped, rejection := check.nodes(rest), RejectedByChurn
	if len(waiting) == 0 && len(dropped) == 0 {
		dropped, rejection = check.moves(rest), RejectedByScheduling
	}
	switch {
	case len(dropped) == len(rest), len(dropped) > 0 && len(cmd.Started.Replacements) > 0:
		return Verdict{Outcome: Rollback, Reason: fmt.Sprintf("node %s: %s", dropped[0].Node, dropped[0].Reason), Rejection: rejection}
	case len(dropped) > 0:
		return Verdict{Outcome: Reduced, Dropped: dropped, Rejection: rejection}
	case len(waiting) == 0:
		return Verdict{Outcome: Confirmed}
	case s.Now.Sub(cmd.At) > commandTimeout:
		return Verdict{Outcome: Rollback, Reason: "command reached timeout", Rejection: RejectedUnknown}
	case s.Now.Sub(cmd.At) > markTimeout && len(waiting) < len(rest) && len(cmd.Started.Replacements) == 0 && s.Options.Revision >= options.Revision3:
		return Verdict{Outcome: Reduced, Dropped: unmarked, Rejection: RejectedUnknown}
	}
	return Verdict{Outcome: Wait, Waiting: waiting}
}

// ConfirmDecision is the decision record of a confirmation: CommandConfirmed, CommandReduced,
// CommandRolledBack or CommandAbandoned; nil while it waits, or was confirmed before and continues.
func ConfirmDecision(s *planner.Snapshot, cmd *ledger.Command) *planner.Decision {
	v := Confirm(s, cmd)
	if v.Outcome == Confirmed && cmd.State == ledger.CommandConfirmedState {
		return nil
	}
	d := &planner.Decision{Causation: cmd.Seq, Subjects: proposal.Subjects(cmd.ID, &cmd.Started), Explanation: v}
	aggregate := ledger.CommandAggregate(cmd.ID)
	d.Advances = []string{aggregate}
	switch v.Outcome {
	case Confirmed:
		d.Kind, d.Payload = ledger.KindCommandConfirmed, &ledger.CommandConfirmed{ID: cmd.ID}
	case Reduced:
		d.Kind, d.Payload = ledger.KindCommandReduced, &ledger.CommandReduced{ID: cmd.ID, Dropped: v.Dropped}
	case Rollback:
		back := &ledger.CommandRolledBack{ID: cmd.ID, Reason: v.Reason, Unused: gone.Unused(s, cmd, MethodStaticDrift), Failing: v.Failing}
		for _, u := range back.Unused { // otherwise the same command could start again at once, and launch and discard nodes forever
			back.Failing = append(back.Failing, s.Ledger.Claim(u.Claim).NodePool)
		}
		back.Failing = sorted(back.Failing)
		if w := cmd.Started.Wave; w != nil && len(v.Failing) > 0 {
			back.HaltsRollout = true // and what is planned for its NodePool meanwhile is planned anew
			d.Advances = append(d.Advances, ledger.PoolAggregate(cmd.Started.Candidates[0].NodePool))
		}
		d.Kind, d.Payload = ledger.KindCommandRolledBack, back
		if len(back.Unused)+len(back.Failing) > 0 {
			d.Kind = ledger.KindCommandAbandoned
		}
		for _, u := range back.Unused {
			d.Advances = append(d.Advances, ledger.ClaimAggregate(u.Claim), ledger.PoolAggregate(s.Ledger.Claim(u.Claim).NodePool))
			d.Subjects = append(d.Subjects, "claim/"+u.Claim)
		}
		d.Advances, d.Subjects = sorted(d.Advances), sorted(d.Subjects)
	default:
		return nil
	}
	d.Expects = s.Expect(aggregate)
	return d
}

// awaited decides on a confirmed command: it waits for its replacements, unless one is gone or they take too
// long (reference: disruption §6, Processing). Once they are ready it still waits, up to that time, for nodes
// that may not be disrupted at the moment.
func awaited(s *planner.Snapshot, cmd *ledger.Command) Verdict {
	rest := Remaining(s, cmd)
	switch {
	case len(cmd.Started.Replacements) == 0 && len(rest) > 0 && s.Now.Sub(cmd.At) > deletionTimeout && s.Options.Revision >= options.Revision8:
		return Verdict{Outcome: Rollback, Reason: "command reached timeout"}
	case len(cmd.Started.Replacements) == 0:
		return Verdict{Outcome: Confirmed}
	case len(rest) == 0 && (s.Shows(cmd.At) || !gone.MayCome(s, cmd)):
		return Verdict{Outcome: Confirmed}
	case len(rest) == 0:
		return Verdict{Outcome: Wait, Reason: "the World is older than the command"}
	}
	var v Verdict
	for i, r := range cmd.Started.Replacements {
		name := s.Ledger.ClaimName(r.NodePool, cmd.Seq, i)
		if c := s.Ledger.Claim(name); c == nil || c.State != ledger.ClaimInitializedState {
			v.Waiting, v.Failing = append(v.Waiting, name), append(v.Failing, r.NodePool)
		}
	}
	if name, pool := s.LostReplacement(cmd); name != "" {
		if v.Failing = []string{pool}; s.Options.Revision >= options.Revision7 && gone.ScaledDown(s, name, pool) {
			v.Failing = nil // nothing has failed
		}
		v.Outcome, v.Reason = Rollback, fmt.Sprintf("replacement %s was deleted", name)
		return v
	}
	late := s.Now.Sub(cmd.At) > commandTimeout
	if len(v.Waiting) > 0 {
		if late {
			v.Outcome, v.Reason, v.Failing = Rollback, "command reached timeout", sorted(v.Failing)
			return v
		}
		return Verdict{Outcome: Wait, Waiting: v.Waiting}
	}
	if cmd.Started.Method == MethodStaticDrift {
		return Verdict{Outcome: Confirmed}
	}
	switch held := newValidation(s, cmd).nodes(rest); {
	case len(held) == 0:
		return Verdict{Outcome: Confirmed}
	case late:
		return Verdict{Outcome: Rollback, Reason: fmt.Sprintf("node %s: %s", held[0].Node, held[0].Reason)}
	default:
		return Verdict{Outcome: Wait, Waiting: []string{held[0].Node}, Reason: held[0].Reason}
	}
}

// stopped decides on a command of any state during a stop: no pod was evicted for it as long as none of its
// NodeClaims is being deleted.
func stopped(s *planner.Snapshot, cmd *ledger.Command) Verdict {
	var begun []string
	for _, c := range cmd.Started.Candidates {
		if o := s.World.NodeClaim(c.Claim); o == nil || o.UID != c.ClaimUID || o.DeletionTimestamp != nil {
			begun = append(begun, c.Node)
		}
	}
	if cmd.State == ledger.CommandConfirmedState && len(begun) > 0 {
		return Verdict{Outcome: Wait, Waiting: begun}
	}
	c := s.Ledger.Control()
	return Verdict{Outcome: Rollback, Reason: fmt.Sprintf("stopped (%s) by %s: %s", c.Stop, c.By, c.Why)}
}

// Remaining returns the candidates that are neither gone nor being deleted for another reason.
func Remaining(s *planner.Snapshot, cmd *ledger.Command) []*planner.StateNode {
	var rest []*planner.StateNode
	for _, c := range cmd.Started.Candidates {
		n := s.StateNodeOfClaim(c.Claim)
		goes := n == nil || n.Node == nil || n.Claim.UID != c.ClaimUID || n.Claim.DeletionTimestamp != nil ||
			n.Ledger != nil && n.Ledger.Doomed != nil
		if !goes {
			rest = append(rest, n)
		}
	}
	return rest
}

// Marked reports that a Node has the taint and names the command's record as the one that asked for it: a
// taint of an earlier command may be about to be removed.
func Marked(n *corev1.Node, logID string, command uint64) bool {
	return slices.ContainsFunc(n.Spec.Taints, isDisrupted) && n.Annotations[karpv1.RecordAnnotationKey] == ledger.RecordAnnotation(logID, command)
}

func isDisrupted(t corev1.Taint) bool {
	d := karpv1.DisruptedTaint()
	return t.MatchTaint(&d)
}
