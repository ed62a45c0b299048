package disruptor

import (
	"context"
	"errors"
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"

	"millwright/planner"
	"millwright/planner/disrupt"
	"millwright/planner/ledger"
	"millwright/services/internal/service"
	"millwright/store"
	"millwright/store/audit"
)

// EventProposed is the reason of the KubeEvent on nodes for which a command waits for approval.
const EventProposed = "DisruptionProposed"

// proposedFor is how long that event is not repeated.
const proposedFor = 6 * time.Hour

// answer carries out approved proposals and ends those that no longer hold.
func (s *Service) answer(ctx context.Context) error {
	var list []pending
	err := s.host.Snapshot(service.ForDisruption, func(snap *planner.Snapshot) error {
		proposals := snap.Ledger.Proposals()
		s.metrics.proposed(proposals)
		now := idle{at: snap.Now, seq: snap.Ledger.Seq(), revision: snap.World.Revision()}
		if len(proposals) == 0 || s.stopped() || snap.Ledger.Stop() != ledger.StopNone || s.answered.tooSoon(now) {
			return nil
		}
		s.answered = now
		for _, x := range proposals {
			s.tellProposed(x)
			if d := disrupt.AnswerDecision(snap, x); d != nil {
				list = append(list, pending{command: ledger.Command{ID: x.ID}, decision: d, basis: snap.Basis()})
				break // the next one is considered on a Snapshot that has this one
			}
		}
		return nil
	})
	if err != nil {
		return err
	}
	for _, p := range list {
		rec, err := s.host.Decide(ctx, p.basis, *p.decision)
		s.answered = idle{} // there may be more
		switch {
		case errors.Is(err, store.ErrConflict):
		case err != nil:
			return fmt.Errorf("answer for proposal %s: %w", p.command.ID, err)
		default:
			s.started(rec, p.decision)
			s.logger.Info().Str("command", p.command.ID).Stringer("kind", p.decision.Kind).Interface("payload", p.decision.Payload).Msg("proposal carried out or ended")
		}
	}
	return nil
}

// tooSoon reports that nothing can have changed since, or that it is less than a second ago.
func (i idle) tooSoon(now idle) bool {
	since := ago(now.at, i.at)
	return since < planEvery || now.seq == i.seq && now.revision == i.revision && since < idleMax
}

// tellProposed publishes on its nodes that a command waits for a person.
func (s *Service) tellProposed(x *ledger.Proposal) {
	if x.State != ledger.ProposalOpen {
		return
	}
	text := fmt.Sprintf("Command %s (%s, saves %s) waits for approval until %s: millctl approve %s --reason ...", x.ID, x.Proposed.Command.Reason,
		audit.Price(max(0, audit.Saved(&x.Proposed.Command))), x.Proposed.Expires.UTC().Format(time.RFC3339), x.ID)
	for _, c := range x.Proposed.Command.Candidates {
		s.host.Event(service.KubeEvent{Object: nodeReference(c.Node), Type: corev1.EventTypeNormal, Reason: EventProposed, Message: text, DedupeFor: proposedFor})
	}
}
