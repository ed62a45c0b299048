package terminator

import (
	"context"
	"errors"
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"

	"millwright/events"
	"millwright/planner"
	"millwright/planner/drain"
	"millwright/planner/ledger"
	"millwright/planner/world"
	"millwright/services/internal/lane"
	"millwright/services/internal/service"
	"millwright/store"
)

// finish lists the node's pods from the API server. If none must be waited for, the node is drained.
// Otherwise the World will show them, or, if there is no valid World or it does not show them for long, those
// of the first tier are evicted at once.
func (s *Service) finish(p *plan) {
	name := p.node.Name
	key := "finish/" + name
	if !s.retries.Due(key, s.host.Now()) {
		return
	}
	settled := s.settled(p)
	s.host.Effect(key, lane.List, callTimeout, func(ctx context.Context) error {
		s.retries.Failed(key, s.host.Now()) // paces the next look, whatever the result of this one
		pods, err := s.kube.PodsOnNode(ctx, name)
		if err != nil {
			return err
		}
		step := s.directStep(name, pods, p.deadline, p.notice)
		if step.Forced() && !s.breaker.allows(name) {
			step = s.directStep(name, pods, time.Time{}, p.notice)
		}
		switch {
		case !step.PodsGone && (p.direct || s.listed.unseenFor(name, s.host.Now()) >= unfitMax):
			return s.evictListed(ctx, p, step)
		case !step.PodsGone || !settled || p.direct && !p.volumesGone:
			return nil
		}
		if err := s.unlessStopped(p.voluntary, "drain node "+name); err != nil {
			return err
		}
		if s.host.LogAway() {
			return nil // it is found drained again when that can be recorded
		}
		return s.recordDrained(ctx, p, pods)
	})
}

// directStep plans a drain on the pods the API server listed.
func (s *Service) directStep(node string, pods []corev1.Pod, deadline, notice time.Time) drain.Step {
	w := world.New()
	mark := events.Observation{Epoch: 1, Counter: 1, Op: events.OpResyncBegin, ObservedAt: s.host.Now()}
	w.Apply(1, mark)
	for i := range pods {
		pod := &pods[i]
		mark.Counter++
		w.Apply(mark.Counter, events.Observation{Epoch: 1, Counter: mark.Counter, Kind: events.KindPod, Op: events.OpUpsert,
			UID: pod.UID, Name: pod.Namespace + "/" + pod.Name, ObservedAt: mark.ObservedAt, Object: pod})
	}
	l := ledger.New("")
	_ = l.Apply(ledger.Entry{Seq: 1, Mode: ledger.ModeActive, Kind: ledger.KindDrainStarted,
		Payload: &ledger.DrainStarted{Node: node, Deadline: deadline, Notice: notice}})
	return drain.Plan(planner.NewSnapshot(w, l, s.breaker.certainly(s.host.Now())), node)
}

func (s *Service) evictListed(ctx context.Context, p *plan, step drain.Step) error {
	s.tellWaiting(p, step.Message())
	if err := s.noteListed(ctx, p, step); err != nil {
		return err
	}
	for _, d := range step.Delete {
		s.delete(p, deletion{ref: drain.Ref(d.Pod), granted: d.GraceSeconds, asked: graceOf(d)})
	}
	for _, ref := range drain.Refs(step.Evict) {
		if !p.running[ref.UID] {
			s.evict(p, ref)
		}
	}
	return nil
}

func (s *Service) recordDrained(ctx context.Context, p *plan, pods []corev1.Pod) error {
	payload := &ledger.NodeDrained{Node: p.node.Name, Claim: p.claimName(), VolumesDetached: len(p.volumes) == 0, Evicted: s.listed.of(p.node.Name)}
	for i := range pods {
		payload.Pods = append(payload.Pods, ledger.PodRef{UID: pods[i].UID, Namespace: pods[i].Namespace, Name: pods[i].Name})
	}
	_, err := s.host.Outcome(ctx, service.Outcome{Kind: ledger.KindNodeDrained, Payload: payload,
		Subjects: []string{"node/" + p.node.Name}, Causation: p.started, Expects: p.expects, Advances: []string{ledger.NodeAggregate(p.node.Name)}})
	switch {
	case errors.Is(err, store.ErrConflict): // the next step looks again
		return nil
	case err != nil:
		return fmt.Errorf("record drained node %s: %w", p.node.Name, err)
	}
	s.metrics.nodeDrained(p)
	s.logger.Info().Str("node", p.node.Name).Str("nodeclaim", p.claimName()).Int("pods", len(pods)).Msg("drained node")
	return nil
}
