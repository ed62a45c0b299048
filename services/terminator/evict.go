package terminator

import (
	"context"
	"fmt"

	corev1 "k8s.io/api/core/v1"

	"millwright/planner/ledger"
	"millwright/services/internal/kube"
	"millwright/services/internal/lane"
)

func evictKey(ref ledger.PodRef) string { return "evict/" + string(ref.UID) }

// evict starts an eviction unless one was tried too recently.
func (s *Service) evict(p *plan, ref ledger.PodRef) {
	key := evictKey(ref)
	if !s.retries.Due(key, s.host.Now()) {
		return
	}
	s.host.Effect(key, lane.Evict, callTimeout, func(ctx context.Context) error { return s.evictNow(ctx, p, ref) })
}

// evictNow asks the Eviction API and remembers when to ask again.
func (s *Service) evictNow(ctx context.Context, p *plan, ref ledger.PodRef) error {
	key := evictKey(ref)
	if err := s.unlessStopped(p.voluntary, "evict pod "+ref.Namespace+"/"+ref.Name); err != nil {
		return err
	}
	err := s.kube.EvictPod(ctx, ref.Namespace, ref.Name, ref.UID)
	s.metrics.evicted(err)
	switch kube.Classify(err) {
	case kube.None:
		s.accepted(key)
		s.metrics.podsDrained.WithLabelValues(p.reason).Inc()
		s.tellEvicted(ref, p.reason)
		return nil
	case kube.NotFound, kube.Conflict:
		s.accepted(key)
		return nil
	case kube.Blocked:
		s.retries.Failed(key, s.host.Now())
		s.tellBlocked(p.node, ref, kube.IsMultiplePDBs(err))
		return nil
	}
	s.retries.Failed(key, s.host.Now())
	return fmt.Errorf("evict pod %s/%s: %w", ref.Namespace, ref.Name, err)
}

// delete deletes a pod with what is left of its grace period, because the node's deadline is near.
func (s *Service) delete(p *plan, d deletion) {
	key := "delete/" + string(d.ref.UID)
	if !s.retries.Due(key, s.host.Now()) {
		return
	}
	s.host.Effect(key, lane.Evict, callTimeout, func(ctx context.Context) error {
		if err := s.unlessStopped(p.voluntary, "delete pod "+d.ref.Namespace+"/"+d.ref.Name); err != nil {
			return err
		}
		err := s.kube.DeletePod(ctx, d.ref.Namespace, d.ref.Name, d.ref.UID, d.granted)
		switch kube.Classify(err) {
		case kube.None:
			s.accepted(key)
			s.tellDeleted(d, p.endOf())
			return nil
		case kube.NotFound, kube.Conflict:
			s.accepted(key)
			return nil
		}
		s.retries.Failed(key, s.host.Now())
		return fmt.Errorf("delete pod %s/%s: %w", d.ref.Namespace, d.ref.Name, err)
	})
}

func podReference(ref ledger.PodRef) corev1.ObjectReference {
	return corev1.ObjectReference{APIVersion: "v1", Kind: "Pod", Namespace: ref.Namespace, Name: ref.Name, UID: ref.UID}
}
