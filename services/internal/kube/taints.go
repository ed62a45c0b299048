package kube

import (
	"slices"

	corev1 "k8s.io/api/core/v1"

	karpv1 "millwright/api/karpenter/v1"
	"millwright/planner"
)

// WithDisruptedTaint returns the patch that puts the karpenter.sh/disrupted taint on the Node, in place of
// any with the same key, and with exclude also keeps load balancers from sending to it. The patch is nil if
// there is nothing to change. It is bound to the Node's UID and resourceVersion.
func WithDisruptedTaint(n *corev1.Node, exclude bool) *Patch {
	want := karpv1.DisruptedTaint()
	body := map[string]any{}
	if !slices.ContainsFunc(n.Spec.Taints, func(t corev1.Taint) bool { return t.MatchTaint(&want) && t.Value == want.Value }) ||
		countDisrupted(n.Spec.Taints) > 1 {
		body["spec"] = map[string]any{"taints": append(withoutDisrupted(n.Spec.Taints), want)}
	}
	if exclude && n.Labels[corev1.LabelNodeExcludeBalancers] != karpv1.ExcludeFromLoadBalancersValue {
		body["metadata"] = map[string]any{"labels": map[string]any{
			corev1.LabelNodeExcludeBalancers: karpv1.ExcludeFromLoadBalancersValue,
		}}
	}
	return boundPatch(n, body)
}

// WithCommandMark returns the patch that puts the taint on the Node, and the record of the command that asks
// for it into its annotation millwright.sh/record; nil if both are there. So each command writes, and whoever
// wants to remove an earlier mark finds another resourceVersion.
func WithCommandMark(n *corev1.Node, record string) *Patch {
	patch := WithDisruptedTaint(n, false)
	if n.Annotations[karpv1.RecordAnnotationKey] == record {
		return patch
	}
	if patch == nil {
		patch = boundPatch(n, map[string]any{"metadata": map[string]any{}})
	}
	patch.Body["metadata"] = map[string]any{"annotations": map[string]any{karpv1.RecordAnnotationKey: record}}
	return patch
}

// WithoutDisruptedTaint returns the patch that removes the taint; nil if the Node has none.
func WithoutDisruptedTaint(n *corev1.Node) *Patch {
	if countDisrupted(n.Spec.Taints) == 0 {
		return nil
	}
	taints := withoutDisrupted(n.Spec.Taints)
	return boundPatch(n, map[string]any{"spec": map[string]any{"taints": taints}})
}

// IsDisrupted reports that the Node has the karpenter.sh/disrupted:NoSchedule taint.
func IsDisrupted(n *corev1.Node) bool {
	want := karpv1.DisruptedTaint()
	return slices.ContainsFunc(n.Spec.Taints, func(t corev1.Taint) bool { return t.MatchTaint(&want) })
}

func boundPatch(n *corev1.Node, body map[string]any) *Patch {
	if len(body) == 0 {
		return nil
	}
	return &Patch{UID: n.UID, ResourceVersion: n.ResourceVersion, Body: body}
}

func countDisrupted(taints []corev1.Taint) (count int) {
	for i := range taints {
		if taints[i].Key == karpv1.DisruptedTaintKey {
			count++
		}
	}
	return count
}

func withoutDisrupted(taints []corev1.Taint) []corev1.Taint {
	kept := make([]corev1.Taint, 0, len(taints)+1)
	for i := range taints {
		if taints[i].Key != karpv1.DisruptedTaintKey {
			kept = append(kept, taints[i])
		}
	}
	return kept
}

// WithDrainOutTaint returns the patch that puts millwright.sh/drain-out:PreferNoSchedule on the Node; nil if
// it is there.
func WithDrainOutTaint(n *corev1.Node) *Patch {
	if slices.ContainsFunc(n.Spec.Taints, planner.IsDrainOut) {
		return nil
	}
	return boundPatch(n, map[string]any{"spec": map[string]any{"taints": append(slices.Clone(n.Spec.Taints), planner.DrainOutTaint())}})
}

// WithoutDrainOutTaint returns the patch that takes it off; nil if the Node has none.
func WithoutDrainOutTaint(n *corev1.Node) *Patch {
	if !slices.ContainsFunc(n.Spec.Taints, planner.IsDrainOut) {
		return nil
	}
	return boundPatch(n, map[string]any{"spec": map[string]any{"taints": slices.DeleteFunc(slices.Clone(n.Spec.Taints), planner.IsDrainOut)}})
}
