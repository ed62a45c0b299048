package disruptor

import (
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	karpv1 "millwright/api/karpenter/v1"
	"millwright/planner/disrupt"
	"millwright/planner/ledger"
	"millwright/services/internal/service"
)

// How long an event is not repeated (reference: operations §3).
const (
	unconsolidatableFor = 15 * time.Minute
	poolBlockedFor      = time.Minute
)

// tellBlocked publishes why nodes and NodePools cannot be disrupted.
func (s *Service) tellBlocked(r disrupt.Report) {
	for _, n := range r.Nodes {
		if n.Blocked == nil || n.Blocked.EventReason == "" || n.Blocked.Message == "" {
			continue
		}
		e := service.KubeEvent{Type: corev1.EventTypeNormal, Reason: n.Blocked.EventReason, Message: n.Blocked.Message}
		if e.Reason == disrupt.EventUnconsolidatable {
			e.DedupeFor = unconsolidatableFor
		}
		if n.Node != "" {
			e.Object = nodeReference(n.Node)
			s.host.Event(e)
		}
		if n.Claim != "" {
			e.Object = claimReference(n.Claim)
			s.host.Event(e)
		}
	}
	for _, p := range r.Pools {
		if text := r.BlockedByBudget(p); text != "" {
			s.host.Event(service.KubeEvent{Object: poolReference(p.NodePool), Type: corev1.EventTypeNormal,
				Reason: disrupt.EventDisruptionBlocked, Message: text, DedupeFor: poolBlockedFor})
		}
	}
}

func (s *Service) tellTerminating(reason karpv1.DisruptionReason, c ledger.Candidate) {
	s.host.Event(service.KubeEvent{Object: nodeReference(c.Node), Type: corev1.EventTypeNormal, Reason: "DisruptionTerminating",
		Message: "Disrupting Node: " + string(reason)})
	s.host.Event(service.KubeEvent{Object: claimReference(c.Claim), Type: corev1.EventTypeNormal, Reason: "DisruptionTerminating",
		Message: "Disrupting NodeClaim: " + string(reason)})
}

// tellMarked publishes that a candidate's NodeClaim says why it goes.
func (s *Service) tellMarked(c ledger.Candidate, want metav1.Condition) {
	object := claimReference(c.Claim)
	object.UID = c.ClaimUID
	s.host.Event(service.KubeEvent{Object: object, Type: corev1.EventTypeNormal, Reason: want.Type,
		Message: service.Transition(want.Type, string(metav1.ConditionUnknown), string(want.Status), want.Reason, want.Message)})
}

func claimReference(name string) corev1.ObjectReference {
	return corev1.ObjectReference{APIVersion: karpv1.SchemeGroupVersion.String(), Kind: "NodeClaim", Name: name}
}

func poolReference(name string) corev1.ObjectReference {
	return corev1.ObjectReference{APIVersion: karpv1.SchemeGroupVersion.String(), Kind: "NodePool", Name: name}
}
