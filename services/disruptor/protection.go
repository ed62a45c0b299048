package disruptor

import (
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"

	"millwright/planner"
	"millwright/planner/world"
	"millwright/services/internal/service"
)

const (
	// protectionFor is how long what is said of a pod's protection is not repeated: as long as the API server
	// keeps KubeEvents.
	protectionFor = time.Hour
	// elapsedFor is how long after its end it is said that a protection has ended.
	elapsedFor = 10 * time.Minute
	// faultMax bounds the text of a value that cannot be read.
	faultMax = 300
)

// tellProtection says of pods on nodes with a NodeClaim until when do-not-disrupt protects them, if it is for
// a time, and that a value protects nothing (reference: disruption §9).
func (s *Service) tellProtection(snap *planner.Snapshot) {
	for _, n := range snap.StateNodes() {
		if n.Claim == nil {
			continue
		}
		for _, p := range n.Pods {
			if e := protectionEvent(p, snap.Now); e != nil {
				s.host.Event(*e)
			}
		}
	}
}

// protectionEvent is nil if nothing is to be said.
func protectionEvent(p *world.Pod, now time.Time) *service.KubeEvent {
	state := planner.DoNotDisrupt(p, now)
	if !state.Invalid && state.Until.IsZero() { // nearly all pods
		return nil
	}
	e := &service.KubeEvent{Object: corev1.ObjectReference{APIVersion: "v1", Kind: "Pod", Namespace: p.Namespace, Name: p.Name, UID: p.UID},
		Type: corev1.EventTypeNormal, DedupeFor: protectionFor}
	switch {
	case state.Invalid:
		e.Type, e.Reason = corev1.EventTypeWarning, "InvalidDoNotDisruptAnnotation"
		e.Message = "Invalid karpenter.sh/do-not-disrupt annotation: " + faultOf(p, now) + ", ignoring annotation"
	case state.InEffect:
		e.Reason = "DoNotDisruptUntil"
		e.Message = "The karpenter.sh/do-not-disrupt grace period will elapse at " + state.Until.Format(time.RFC3339)
	case now.Sub(state.Until) < elapsedFor:
		e.Reason = "DoNotDisruptGracePeriodElapsed"
		e.Message = "The karpenter.sh/do-not-disrupt grace period has elapsed, pod is now disruptable"
	default:
		return nil
	}
	return e
}

func faultOf(p *world.Pod, now time.Time) string {
	text := strings.ToValidUTF8(planner.DoNotDisruptFault(p, now).Error(), "?")
	if r := []rune(text); len(r) > faultMax {
		return string(r[:faultMax]) + "..."
	}
	return text
}
