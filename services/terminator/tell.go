package terminator

import (
	"context"
	"fmt"
	"strings"
	"time"

	"millwright/planner/condition"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	karpv1 "millwright/api/karpenter/v1"
	"millwright/planner/ledger"
	"millwright/services/internal/service"
)

// namesShownMax is how many names an event lists (reference: operations §3).
const namesShownMax = 5

// publishProgress publishes what people wait to know of a drain that goes on.
func (s *Service) publishProgress(p *plan) {
	if !p.endOf().IsZero() {
		message := "All pods will be deleted by " + p.endOf().UTC().Format(time.RFC3339)
		s.host.Event(nodeEvent(p.node, corev1.EventTypeWarning, "TerminationGracePeriodExpiring", message))
		if p.claim != nil {
			s.host.Event(service.KubeEvent{Object: claimReference(p.claim), Type: corev1.EventTypeWarning,
				Reason: "TerminationGracePeriodExpiring", Message: message})
		}
	}
	if p.drained {
		return
	}
	if text, invalid := p.invalidDeadline(); invalid {
		s.host.Event(service.KubeEvent{Object: claimReference(p.claim), Type: corev1.EventTypeWarning, Reason: "InvalidTerminationTimestamp",
			Message: fmt.Sprintf("%s %q is no time as in RFC 3339: pods are waited for without a deadline", karpv1.TerminationTimestampAnnotationKey, text)})
	}
	s.tellWaiting(p, p.waiting)
	if p.podsGone && !p.volumesGone {
		e := nodeEvent(p.node, corev1.EventTypeNormal, "AwaitingVolumeDetachment",
			"Awaiting deletion of bound volumeattachments ("+shown(p.volumes)+")")
		e.DedupeKey = "volumes"
		s.host.Event(e)
	}
}

// tellWaiting publishes which pods a drain waits for; "": none.
func (s *Service) tellWaiting(p *plan, waiting string) {
	if waiting == "" {
		return
	}
	e := nodeEvent(p.node, corev1.EventTypeWarning, "FailedDraining", "Failed to drain node, "+waiting)
	e.DedupeKey = "waiting"
	s.host.Event(e)
}

func (s *Service) tellPaused(p *plan) {
	e := nodeEvent(p.node, corev1.EventTypeWarning, "DrainPaused", "Nothing is evicted while operators have stopped it (millctl status)")
	e.DedupeKey = "paused"
	s.host.Event(e)
}

func (s *Service) tellEvicted(ref ledger.PodRef, reason string) {
	s.host.Event(service.KubeEvent{Object: podReference(ref), Type: corev1.EventTypeNormal, Reason: "Evicted",
		Message: "Evicted pod: " + reason})
}

func (s *Service) tellBlocked(node *corev1.Node, ref ledger.PodRef, multiple bool) {
	why := "evicting pod violates a PDB"
	if multiple {
		why = "eviction does not support multiple PDBs"
	}
	s.host.Event(nodeEvent(node, corev1.EventTypeWarning, "FailedDraining", fmt.Sprintf("Failed to drain node, %s (Pod=%s/%s)", why, ref.Namespace, ref.Name)))
}

func (s *Service) tellDeleted(d deletion, deadline time.Time) {
	s.host.Event(service.KubeEvent{Object: podReference(d.ref), Type: corev1.EventTypeNormal, Reason: "Disrupted",
		Message: fmt.Sprintf("Deleting the pod to accommodate the terminationTime %s of the node. The pod was granted %d seconds of "+
			"grace-period of its %d terminationGracePeriodSeconds. This bypasses the PDB of the pod and the do-not-disrupt annotation.",
			deadline.Format(time.RFC3339), d.granted, d.asked),
		DedupeKey: string(d.ref.UID)})
}

func nodeEvent(n *corev1.Node, kind, reason, message string) service.KubeEvent {
	return service.KubeEvent{Object: corev1.ObjectReference{APIVersion: "v1", Kind: "Node", Name: n.Name, UID: n.UID},
		Type: kind, Reason: reason, Message: message}
}

func claimReference(c *karpv1.NodeClaim) corev1.ObjectReference {
	return corev1.ObjectReference{APIVersion: karpv1.SchemeGroupVersion.String(), Kind: "NodeClaim", Name: c.Name, UID: c.UID}
}

func shown(names []string) string {
	if len(names) <= namesShownMax {
		return strings.Join(names, ", ")
	}
	return fmt.Sprintf("%s and %d other(s)", strings.Join(names[:namesShownMax], ", "), len(names)-namesShownMax)
}

// setConditions brings the conditions Drained and VolumesDetached of the NodeClaim up to date.
func (s *Service) setConditions(p *plan) {
	if p.claim == nil {
		return
	}
	for _, want := range p.conditions(s.settled(p)) {
		have := condition.Get(p.claim.Status.Conditions, want.Type)
		if have != nil && have.Status == want.Status && have.Reason == want.Reason {
			continue
		}
		claim := p.claim
		s.paced("condition/"+strings.Join([]string{claim.Name, want.Type, string(want.Status), want.Reason}, "/"), func(ctx context.Context) error {
			err := s.kube.SetClaimCondition(ctx, claim.Name, claim.UID, want, s.host.Now())
			if err == nil {
				s.tellTransition(claim, have, want)
			}
			return err
		})
		return // one at a time, because both are in one object
	}
}

// tellTransition publishes that a condition's status changed; have is nil for one that was not there.
func (s *Service) tellTransition(claim *karpv1.NodeClaim, have *metav1.Condition, want metav1.Condition) {
	from := metav1.ConditionUnknown
	if have != nil {
		from = have.Status
	}
	if from != want.Status {
		s.host.Event(service.KubeEvent{Object: claimReference(claim), Type: corev1.EventTypeNormal, Reason: want.Type,
			Message: service.Transition(want.Type, string(from), string(want.Status), want.Reason, want.Message)})
	}
}

// conditions of the claim at this point of the drain (reference: lifecycle §2): pods go first, then volumes.
func (p *plan) conditions(settled bool) []metav1.Condition {
	drained := metav1.Condition{Type: karpv1.ConditionTypeDrained, Status: metav1.ConditionUnknown, Reason: "Draining", Message: "Draining"}
	if !p.drained && !(p.podsGone && !p.volumesGone && settled) {
		return []metav1.Condition{drained}
	}
	drained.Status, drained.Reason, drained.Message = metav1.ConditionTrue, "Drained", ""
	if !p.drained {
		return []metav1.Condition{drained, {Type: karpv1.ConditionTypeVolumesDetached, Status: metav1.ConditionUnknown,
			Reason: "AwaitingVolumeDetachment", Message: "AwaitingVolumeDetachment"}}
	}
	volumes := metav1.Condition{Type: karpv1.ConditionTypeVolumesDetached, Status: metav1.ConditionTrue, Reason: "VolumesDetached"}
	if len(p.volumes) > 0 {
		volumes.Status, volumes.Reason, volumes.Message = metav1.ConditionFalse, "TerminationGracePeriodElapsed", "TerminationGracePeriodElapsed"
	}
	return []metav1.Condition{drained, volumes}
}
