package demand

import (
	"fmt"

	corev1 "k8s.io/api/core/v1"
)

// Untolerated returns the first taint that keeps the pod away; preferNoSchedule says that taints of that
// effect do so too.
func Untolerated(taints []corev1.Taint, tolerations []corev1.Toleration, preferNoSchedule bool) *corev1.Taint {
	for i := range taints {
		t := &taints[i]
		if t.Effect == corev1.TaintEffectPreferNoSchedule && !preferNoSchedule {
			continue
		}
		if !tolerates(t, tolerations) {
			return t
		}
	}
	return nil
}

func tolerates(t *corev1.Taint, tolerations []corev1.Toleration) bool {
	for i := range tolerations {
		if tolerationMatches(&tolerations[i], t) {
			return true
		}
	}
	return false
}

func tolerationMatches(tol *corev1.Toleration, t *corev1.Taint) bool {
	if tol.Effect != "" && tol.Effect != t.Effect || tol.Key != "" && tol.Key != t.Key {
		return false
	}
	switch tol.Operator {
	case "", corev1.TolerationOpEqual:
		return tol.Key != "" && tol.Value == t.Value
	case corev1.TolerationOpExists:
		return true
	}
	return false
}

// TaintText is the text that users see: "did not tolerate taint (taint=k=v:Effect)".
func TaintText(t *corev1.Taint) string {
	if t.Value == "" {
		return fmt.Sprintf("did not tolerate taint (taint=%s:%s)", t.Key, t.Effect)
	}
	return fmt.Sprintf("did not tolerate taint (taint=%s=%s:%s)", t.Key, t.Value, t.Effect)
}

func HasPreferNoSchedule(taints []corev1.Taint) bool {
	for i := range taints {
		if taints[i].Effect == corev1.TaintEffectPreferNoSchedule {
			return true
		}
	}
	return false
}
