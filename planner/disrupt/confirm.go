package disrupt

import (
	"fmt"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"

	karpv1 "millwright/api/karpenter/v1"
	"millwright/planner"
	"millwright/planner/ledger"
	"millwright/planner/world"
)

// Outcome of a confirmation.
type Outcome int

const (
	// Wait: the World does not show the command's mark on all nodes yet.
	Wait Outcome = iota
	// Confirmed: the command still holds; delete the NodeClaims.
	Confirmed
	// Rollback: give the command up.
	Rollback
)

func (o Outcome) String() string { return [...]string{"Wait", "Confirmed", "Rollback"}[o] }

// Verdict on a running command.
type Verdict struct {
	Outcome Outcome
	// Reason of a rollback; Waiting names the nodes, or of a confirmed command the replacements, that are waited for.
	Reason  string
	Waiting []string
}

// Confirm decides on a running command from a Snapshot taken after its nodes were tainted: they must
// still be empty or drifted, as the method has it, eligible and within the budgets. Nodes that go away for another reason are none of its business.
// A confirmed command waits, or is rolled back once its replacements will not come.
// While operators have stopped voluntary disruption it is rolled back, or waits if it has begun to take nodes away.
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
	var waiting []string
	for _, n := range rest {
		if !Marked(n.Node.Object, s.Ledger.LogID(), cmd.Seq) {
			waiting = append(waiting, n.Name)
		}
	}
	if reason := invalid(s, cmd, rest); reason != "" {
		return Verdict{Outcome: Rollback, Reason: reason}
	}
	if len(waiting) > 0 {
		if s.Now.Sub(cmd.At) > commandTimeout {
			return Verdict{Outcome: Rollback, Reason: "command reached timeout"}
		}
		return Verdict{Outcome: Wait, Waiting: waiting}
	}
	return Verdict{Outcome: Confirmed}
}

// ConfirmDecision is the decision record of a confirmation: CommandConfirmed or CommandRolledBack; nil
// while it waits, or was confirmed before and goes on.
func ConfirmDecision(s *planner.Snapshot, cmd *ledger.Command) *planner.Decision {
	v := Confirm(s, cmd)
	if v.Outcome == Confirmed && cmd.State == ledger.CommandConfirmedState {
		return nil
	}
	d := &planner.Decision{Causation: cmd.Seq, Subjects: commandSubjects(cmd), Explanation: v}
	aggregate := ledger.CommandAggregate(cmd.ID)
	switch v.Outcome {
	case Confirmed:
		d.Kind, d.Payload = ledger.KindCommandConfirmed, &ledger.CommandConfirmed{ID: cmd.ID}
	case Rollback:
		d.Kind, d.Payload = ledger.KindCommandRolledBack, &ledger.CommandRolledBack{ID: cmd.ID, Reason: v.Reason}
	default:
		return nil
	}
	d.Expects, d.Advances = s.Expect(aggregate), []string{aggregate}
	return d
}

// awaited decides on a confirmed command: it waits for its replacements, unless one is gone or they take too long
// (reference: disruption §6, Processing). Replacements are not deleted with it: they are empty nodes, or used by then.
func awaited(s *planner.Snapshot, cmd *ledger.Command) Verdict {
	if len(Remaining(s, cmd)) == 0 {
		return Verdict{Outcome: Confirmed}
	}
	var waiting []string
	for i, r := range cmd.Started.Replacements {
		name := ledger.ClaimName(s.Ledger.LogID(), r.NodePool, cmd.Seq, i)
		switch c := s.Ledger.Claim(name); {
		case c == nil || c.Doomed != nil:
			return Verdict{Outcome: Rollback, Reason: fmt.Sprintf("replacement %s was deleted", name)}
		case c.State != ledger.ClaimInitializedState:
			waiting = append(waiting, name)
		}
	}
	switch {
	case len(waiting) == 0:
		return Verdict{Outcome: Confirmed}
	case s.Now.Sub(cmd.At) > commandTimeout:
		return Verdict{Outcome: Rollback, Reason: "command reached timeout", Waiting: waiting}
	}
	return Verdict{Outcome: Wait, Waiting: waiting}
}

// stopped decides on a command of any state while there is a stop: no pod was evicted for it as long as none of its
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

func commandSubjects(cmd *ledger.Command) []string {
	list := []string{"command/" + cmd.ID}
	for _, c := range cmd.Started.Candidates {
		list = append(list, "claim/"+c.Claim, "node/"+c.Node)
	}
	slices.Sort(list)
	return slices.Compact(list)
}

// Remaining returns the candidates that are neither gone nor being deleted anyway.
func Remaining(s *planner.Snapshot, cmd *ledger.Command) []*planner.StateNode {
	var rest []*planner.StateNode
	for _, c := range cmd.Started.Candidates {
		n := s.StateNodeOfClaim(c.Claim)
		gone := n == nil || n.Node == nil || n.Claim.UID != c.ClaimUID || n.Claim.DeletionTimestamp != nil ||
			n.Ledger != nil && n.Ledger.Doomed != nil
		if !gone {
			rest = append(rest, n)
		}
	}
	return rest
}

// Marked reports that a Node bears the taint and names the command's record as the one that asked for it: a taint of an
// earlier command may be on its way off.
func Marked(n *corev1.Node, logID string, command uint64) bool {
	return slices.ContainsFunc(n.Spec.Taints, isDisrupted) && n.Annotations[karpv1.RecordAnnotationKey] == ledger.RecordAnnotation(logID, command)
}

func isDisrupted(t corev1.Taint) bool {
	d := karpv1.DisruptedTaint()
	return t.MatchTaint(&d)
}

// invalid returns why the command can no longer go on; "" if it can.
func invalid(s *planner.Snapshot, cmd *ledger.Command, rest []*planner.StateNode) string {
	all := newCandidates(s)
	check := emptiness{all}.invalid
	if cmd.Started.Method == MethodStaticDrift {
		check = staticDrift{all}.invalid
	}
	pools := map[string]bool{}
	for _, n := range rest {
		pools[n.NodePool] = true
		if reason := check(n, cmd.ID); reason != "" {
			return reason
		}
	}
	for _, pool := range s.World.NodePools() {
		if !pools[pool.Name] {
			continue
		}
		if b := Budgets(s, pool, cmd.Started.Reason); b.Consuming > b.Allowed {
			return "a candidate can no longer be disrupted without violating budgets"
		}
	}
	return ""
}

func podNames(pods []*world.Pod) string {
	var names []string
	for _, p := range pods[:min(len(pods), 5)] {
		names = append(names, p.Key())
	}
	if more := len(pods) - 5; more > 0 {
		return fmt.Sprintf("%s and %d other(s)", strings.Join(names, ", "), more)
	}
	return strings.Join(names, ", ")
}

func lowerFirst(s string) string {
	if s == "" {
		return "no longer managed"
	}
	return strings.ToLower(s[:1]) + s[1:]
}
