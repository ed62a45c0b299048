package disruptor

import (
	"context"
	"errors"
	"fmt"

	"millwright/planner/condition"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	karpv1 "millwright/api/karpenter/v1"
	"millwright/planner"
	"millwright/planner/disrupt"
	"millwright/planner/ledger"
	"millwright/services/internal/kube"
	"millwright/services/internal/lane"
	"millwright/services/internal/service"
	"millwright/store"
)

// command is a copy of a running command, for use outside the Ledger's lock.
type command struct {
	ledger.Command
	// untainted are the nodes of candidates that the World does not show tainted by this command and marked.
	untainted []ledger.Candidate
	// awaited are the replacements whose NodeClaims are there and not initialized.
	awaited []string
	// deleting are the names of candidates' NodeClaims that the World shows being deleted.
	deleting map[string]bool
	// ready: it is confirmed, and its replacements, if any, are initialized, or nothing is left to be
	// replaced.
	ready bool
	// expects of the record that ends the command.
	expects []planner.Expectation
}

// drive starts what the running commands require.
func (s *Service) drive() error {
	var commands []command
	err := s.host.Snapshot(service.ForEffects, func(snap *planner.Snapshot) error {
		for _, c := range snap.Ledger.Commands() {
			commands = append(commands, viewOf(snap, c))
		}
		return nil
	})
	if err != nil {
		return err
	}
	if s.stopped() {
		return nil // what was tainted stays so, until the command is rolled back or continues
	}
	for _, c := range commands {
		for _, candidate := range c.untainted {
			s.markCandidate(c, candidate)
		}
		s.tellAwaited(c)
		if c.ready {
			s.finish(c)
		}
	}
	return nil
}

func viewOf(snap *planner.Snapshot, c *ledger.Command) command {
	v := command{Command: *c, expects: snap.Expect(ledger.CommandAggregate(c.ID)), deleting: map[string]bool{}}
	v.ready = c.State == ledger.CommandConfirmedState && disrupt.Confirm(snap, c).Outcome == disrupt.Confirmed
	for i, r := range c.Started.Replacements {
		name := ledger.ClaimName(snap.Ledger.LogID(), r.NodePool, c.Seq, i)
		if x := snap.Ledger.Claim(name); c.State == ledger.CommandConfirmedState && x != nil && x.State != ledger.ClaimInitializedState && snap.World.NodeClaim(name) != nil {
			v.awaited = append(v.awaited, name)
		}
	}
	for _, candidate := range c.Started.Candidates {
		if o := snap.World.NodeClaim(candidate.Claim); o != nil && o.UID == candidate.ClaimUID && o.DeletionTimestamp != nil {
			v.deleting[candidate.Claim] = true
		}
		n := snap.StateNodeOfClaim(candidate.Claim)
		if n == nil || n.Node == nil || n.Claim.UID != candidate.ClaimUID || n.Claim.DeletionTimestamp != nil {
			continue
		}
		marked := condition.Get(n.Claim.Status.Conditions, karpv1.ConditionTypeDisruptionReason)
		if !disrupt.Marked(n.Node.Object, snap.Ledger.LogID(), c.Seq) || marked == nil || marked.Status != metav1.ConditionTrue {
			v.untainted = append(v.untainted, candidate)
		}
	}
	return v
}

// markCandidate puts the taint on the candidate's Node with the record that asks for it, and says why on its
// NodeClaim.
func (s *Service) markCandidate(command command, c ledger.Candidate) {
	reason, record := command.Started.Reason, ledger.RecordAnnotation(s.host.LogID(), command.Seq)
	s.startEffect("taint/"+c.Node, "mark "+record+" on "+c.Node, func(ctx context.Context) error {
		node, err := s.kube.Node(ctx, c.Node)
		if err != nil {
			return ignore(err, kube.NotFound)
		}
		if c.ProviderID != "" && node.Spec.ProviderID != c.ProviderID {
			return nil // another machine with the same name
		}
		if patch := kube.WithCommandMark(node, record); patch != nil {
			if err := s.unlessStopped("taint node " + c.Node); err != nil {
				return err
			}
			if _, err := s.kube.PatchNode(ctx, c.Node, *patch); err != nil {
				return ignore(fmt.Errorf("taint node %s: %w", c.Node, err), kube.NotFound)
			}
			s.logger.Info().Str("node", c.Node).Str("nodeclaim", c.Claim).Str("taint", karpv1.DisruptedTaintKey).Msg("tainted node")
		}
		want := metav1.Condition{Type: karpv1.ConditionTypeDisruptionReason, Status: metav1.ConditionTrue,
			Reason: string(reason), Message: string(reason)}
		if err := s.kube.SetClaimCondition(ctx, c.Claim, c.ClaimUID, want, s.host.Now()); err != nil {
			return ignore(err, kube.NotFound)
		}
		s.tellMarked(c, want)
		return nil
	})
}

// startEffect starts what the World shows a while later. Until then it is not repeated at every step, and
// after a failure or a conflict only after a pause. Effects with one key exclude each other, tries with one
// purpose wait for each other. fn reads again whatever its writes are based on.
func (s *Service) startEffect(key, purpose string, fn func(ctx context.Context) error) {
	if !s.retries.Due(purpose, s.host.Now()) {
		return
	}
	s.host.Effect(key, lane.Converge, callTimeout, func(ctx context.Context) error {
		err := fn(ctx)
		switch now := s.host.Now(); {
		case err == nil:
			s.retries.Accepted(purpose, now.Add(afterSuccess), now)
		case errors.Is(err, service.ErrStopped):
		case kube.IsConflict(err):
			s.retries.Conflicted(purpose, now)
			return nil
		default:
			s.retries.Failed(purpose, now)
		}
		return err
	})
}

// pending is a decision on a running command.
type pending struct {
	command  ledger.Command
	decision *planner.Decision
	basis    planner.Basis
	// whole: it is carried out only if no deletion was made for the command.
	whole bool
}

// confirm decides on the commands whose taints show, or that operators have stopped: they continue or are
// rolled back.
func (s *Service) confirm(ctx context.Context) error {
	list, err := s.undecided()
	if err != nil {
		return err
	}
	var errs []error
	for _, p := range list {
		if p.command.State == ledger.CommandConfirmedState {
			s.rollBack(p)
			continue
		}
		errs = append(errs, s.decide(ctx, p))
	}
	return errors.Join(errs...)
}

// undecided are the decisions that are due. A confirmed command has another one when the log says stop, and
// once its replacements will not come; while only the lack of an answer means stop, all wait.
func (s *Service) undecided() ([]pending, error) {
	var list []pending
	err := s.host.Snapshot(service.ForDisruption, func(snap *planner.Snapshot) error {
		recorded := snap.Ledger.Stop() != ledger.StopNone
		if s.stopped() && !recorded {
			return nil
		}
		for _, c := range snap.Ledger.Commands() {
			if d := disrupt.ConfirmDecision(snap, c); d != nil {
				list = append(list, pending{*c, d, snap.Basis(), recorded})
			}
		}
		return nil
	})
	return list, err
}

func (s *Service) decide(ctx context.Context, p pending) error {
	_, err := s.host.Decide(ctx, p.basis, *p.decision)
	switch {
	case errors.Is(err, store.ErrConflict): // the next step looks again
	case err != nil:
		return fmt.Errorf("confirm command %s: %w", p.command.ID, err)
	case p.decision.Kind == ledger.KindCommandReduced:
		s.metrics.reduced(&p.command, p.decision)
		s.tellRejected(&p.command, p.decision)
		s.logger.Info().Str("command", p.command.ID).Interface("verdict", p.decision.Explanation).Msg("command goes on without some nodes")
	case p.decision.Kind == ledger.KindCommandRolledBack, p.decision.Kind == ledger.KindCommandAbandoned:
		s.metrics.rolledBack(&p.command, p.decision)
		s.tellRejected(&p.command, p.decision)
		s.logger.Info().Str("command", p.command.ID).Interface("verdict", p.decision.Explanation).Msg("command rolled back")
	}
	return nil
}

// rollBack gives a confirmed command up. It shares the key of finish, so that none of its deletions is in
// flight, and asks the API server itself whether one was made before.
func (s *Service) rollBack(p pending) {
	s.startEffect(commandKey(p.command.ID), "roll back "+p.command.ID, func(ctx context.Context) error {
		for _, candidate := range p.command.Started.Candidates {
			if !p.whole {
				break // what was deleted continues to drain, the rest stays
			}
			claim, err := s.kube.GetNodeClaim(ctx, candidate.Claim)
			if err := ignore(err, kube.NotFound); err != nil {
				return fmt.Errorf("look at nodeclaim %s: %w", candidate.Claim, err)
			}
			if err != nil || claim.UID != candidate.ClaimUID || claim.DeletionTimestamp != nil {
				return nil // begun: the command pauses
			}
		}
		return s.decide(ctx, p)
	})
}

func commandKey(id string) string { return "command/" + id }

// finish deletes the candidates' NodeClaims, and then records that their deletion was accepted. Who ends
// between both deletes again what is still there: it is counted by who records. What was gone before is not.
// One whose deletion is refused holds up none of the others. One that is seen being deleted is not asked for
// again: where each call takes long, an effect ends before the last of many.
func (s *Service) finish(c command) {
	s.startEffect(commandKey(c.ID), "finish "+c.ID, func(ctx context.Context) error {
		var deleted []ledger.Candidate
		var refused []error
		for _, candidate := range c.Started.Candidates {
			if c.deleting[candidate.Claim] {
				deleted = append(deleted, candidate)
				continue
			}
			if err := s.unlessStopped("delete nodeclaim " + candidate.Claim); err != nil {
				return err
			}
			err := s.kube.DeleteNodeClaim(ctx, candidate.Claim, candidate.ClaimUID)
			if err := ignore(err, kube.NotFound, kube.Conflict); err != nil {
				refused = append(refused, fmt.Errorf("delete nodeclaim %s: %w", candidate.Claim, err))
			}
			if err == nil {
				deleted = append(deleted, candidate)
				s.tellTerminating(c.Started.Reason, candidate)
			}
		}
		if err := errors.Join(refused...); err != nil {
			return err
		}
		aggregate := ledger.CommandAggregate(c.ID)
		_, err := s.host.Outcome(ctx, service.Outcome{Kind: ledger.KindCommandSucceeded, Payload: &ledger.CommandSucceeded{ID: c.ID},
			Subjects: []string{"command/" + c.ID}, Causation: c.Seq, Expects: c.expects, Advances: []string{aggregate}})
		switch {
		case errors.Is(err, store.ErrConflict): // the next step looks again
			return nil
		case err != nil:
			return fmt.Errorf("record success of command %s: %w", c.ID, err)
		}
		s.metrics.succeeded(&c.Started, deleted)
		s.logger.Info().Str("command", c.ID).Int("nodes", len(c.Started.Candidates)).Msg("command succeeded")
		return nil
	})
}

// ignore drops errors of these classes.
func ignore(err error, classes ...kube.Class) error {
	class := kube.Classify(err)
	for _, c := range classes {
		if class == c {
			return nil
		}
	}
	return err
}

func nodeReference(name string) corev1.ObjectReference {
	return corev1.ObjectReference{APIVersion: "v1", Kind: "Node", Name: name}
}
