package service

import (
	"fmt"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"millwright/planner/condition"
)

// Transition is the text of a KubeEvent that reports how a condition changed.
func Transition(kind, from, to, reason, message string) string {
	text := fmt.Sprintf("Status condition transitioned, Type: %s, Status: %s -> %s, Reason: %s", kind, from, to, reason)
	if message != "" {
		text += ", Message: " + message
	}
	return text
}

// Transitions are one KubeEvent per condition whose status changed, or that is False for another cause; a
// Warning if it is False.
func Transitions(object corev1.ObjectReference, before, after []metav1.Condition) []KubeEvent {
	var out []KubeEvent
	for _, c := range after {
		from := metav1.Condition{Status: metav1.ConditionUnknown}
		if old := condition.Get(before, c.Type); old != nil {
			from = *old
		}
		refused := c.Status == metav1.ConditionFalse
		if from.Status == c.Status && !(refused && (from.Reason != c.Reason || from.Message != c.Message)) {
			continue
		}
		kind := corev1.EventTypeNormal
		if refused {
			kind = corev1.EventTypeWarning
		}
		out = append(out, KubeEvent{Object: object, Type: kind, Reason: c.Type,
			Message: Transition(c.Type, string(from.Status), string(c.Status), c.Reason, c.Message)})
	}
	return out
}
