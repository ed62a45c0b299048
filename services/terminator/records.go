package terminator

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"millwright/planner"
	"millwright/planner/drain"
	"millwright/planner/ledger"
	"millwright/services/internal/service"
	"millwright/store"
)

// startDrains records a drain for each node that has none.
func (s *Service) startDrains(ctx context.Context, nodes []leaving) error {
	var list []undrained
	var basis planner.Basis
	err := s.host.Snapshot(service.ForEffects, func(snap *planner.Snapshot) error {
		// Without a position: it is decided on what informers show, which the stream cannot replay.
		basis = planner.Basis{LedgerSeq: snap.Ledger.Seq(), Now: snap.Now, OptionsSeq: snap.OptionsSeq}
		for _, l := range nodes {
			if snap.Ledger.Drain(l.node.Name) == nil {
				reason, relied := l.reason(snap.Ledger)
				list = append(list, undrained{l, reason, noticed(snap.Ledger, l), snap.Expect(append(relied, ledger.NodeAggregate(l.node.Name))...)})
			}
		}
		return nil
	})
	if err != nil {
		return err
	}
	var errs []error
	for _, l := range list {
		errs = append(errs, s.hindering(s.startDrain(ctx, l, basis)))
	}
	return errors.Join(errs...)
}

// hindering is an error for which the step fails and is tried again. One node's record that cannot be encoded
// is only logged: no try helps it, and the drains of others must not slow down for it.
func (s *Service) hindering(err error) error {
	var value *json.UnsupportedValueError
	var marshaler *json.MarshalerError
	if err == nil || !errors.As(err, &marshaler) && !errors.As(err, &value) {
		return err
	}
	s.logger.Warn().Err(err).Msg("node skipped")
	return nil
}

// undrained is a node whose drain is not recorded.
type undrained struct {
	leaving
	reason  string
	notice  time.Time
	expects []planner.Expectation
}

func (s *Service) startDrain(ctx context.Context, l undrained, basis planner.Basis) error {
	payload := &ledger.DrainStarted{Node: l.node.Name, Claim: l.claimName(), Reason: l.reason, Deadline: l.deadline(), Notice: l.notice}
	subjects := []string{"node/" + l.node.Name}
	if l.claim != nil {
		payload.ClaimUID = l.claim.UID
		subjects = append(subjects, "claim/"+l.claim.Name)
	}
	_, err := s.host.Decide(ctx, basis, planner.Decision{Kind: ledger.KindDrainStarted, Payload: payload, Subjects: subjects,
		Expects: l.expects, Advances: []string{ledger.NodeAggregate(l.node.Name)}})
	return lost(fmt.Errorf("start drain of node %s: %w", l.node.Name, err), err)
}

// endDrains records the end of drains whose Node is gone, or has been replaced by another.
func (s *Service) endDrains(ctx context.Context, nodes []leaving) error {
	present := map[string]leaving{}
	for _, l := range nodes {
		present[l.node.Name] = l
	}
	type ended struct {
		node, claim string
		seq         uint64
		evicted     []ledger.PodRef
	}
	var over []ended
	err := s.host.Ledger(func(l *ledger.Ledger) error {
		for _, d := range l.Drains() {
			if n, found := present[d.Started.Node]; !found || !n.has(d) {
				x := ended{node: d.Started.Node, claim: d.Started.Claim, seq: d.Seq}
				if d.Drained == 0 {
					x.evicted = s.listed.of(d.Started.Node)
				}
				over = append(over, x)
			}
		}
		return nil
	})
	if err != nil {
		return err
	}
	var errs []error
	for _, d := range over {
		_, err := s.host.Outcome(ctx, service.Outcome{Kind: ledger.KindDrainEnded, Payload: &ledger.DrainEnded{Node: d.node, Evicted: d.evicted},
			Subjects: []string{"node/" + d.node}, Causation: d.seq, Advances: []string{ledger.NodeAggregate(d.node)}})
		if err != nil {
			errs = append(errs, fmt.Errorf("end drain of node %s: %w", d.node, err))
		}
	}
	return errors.Join(errs...)
}

// recordTier records the tier before its first pod is evicted, and again when a pod joins it.
func (s *Service) recordTier(ctx context.Context, p *plan) error {
	if p.tier == nil {
		return nil
	}
	_, err := s.host.Decide(ctx, p.basis, planner.Decision{Kind: ledger.KindDrainTierStarted, Payload: p.tier,
		Subjects: []string{"node/" + p.node.Name}, Causation: p.started, Expects: p.expects,
		Advances: []string{ledger.NodeAggregate(p.node.Name)}})
	if err != nil {
		p.evicts, p.deletes, p.surges = nil, nil, drain.Surge{}
		return lost(fmt.Errorf("record tier %d of node %s: %w", p.tier.Tier, p.node.Name, err), err)
	}
	s.tellLate(p)
	s.logger.Info().Str("node", p.node.Name).Int("tier", p.tier.Tier).Int("evict", len(p.tier.Evict)).
		Int("held", len(p.tier.Held)).Int("delete", len(p.tier.Delete)).Msg("draining tier")
	return nil
}

// lost returns described unless there was no error. A lost race is an error too: the step is tried again.
func lost(described, err error) error {
	if err == nil {
		return nil
	}
	if errors.Is(err, store.ErrConflict) {
		return fmt.Errorf("%w: %w", service.ErrNotReady, described)
	}
	return described
}
