// Package taint says which taints a starting node carries for a while (reference: lifecycle §5, scheduling
// §3).
package taint

import (
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"

	karpv1 "millwright/api/karpenter/v1"
)

// readinessPrefix marks taints that readiness controllers remove.
const readinessPrefix = "readiness.k8s.io/"

var ephemeral = []corev1.Taint{
	{Key: corev1.TaintNodeNotReady, Effect: corev1.TaintEffectNoSchedule},
	{Key: corev1.TaintNodeNotReady, Effect: corev1.TaintEffectNoExecute},
	{Key: corev1.TaintNodeUnreachable, Effect: corev1.TaintEffectNoSchedule},
	{Key: "node.cloudprovider.kubernetes.io/uninitialized", Effect: corev1.TaintEffectNoSchedule},
	karpv1.UnregisteredTaint(),
}

// Ephemeral reports a taint that a new node carries until it is initialized.
func Ephemeral(t corev1.Taint) bool {
	return strings.HasPrefix(t.Key, readinessPrefix) || In(ephemeral, t)
}

// In reports that a list contains the taint: one with the same key and effect.
func In(taints []corev1.Taint, want corev1.Taint) bool {
	return slices.ContainsFunc(taints, func(t corev1.Taint) bool { return t.MatchTaint(&want) })
}
