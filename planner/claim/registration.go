package claim

import (
	"maps"
	"slices"

	"millwright/planner/taint"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	karpv1 "millwright/api/karpenter/v1"
	awsv1 "millwright/api/karpenteraws/v1"
)

// RegisteredNode returns the Node as registration leaves it, in one write (reference: lifecycle §4):
// finalizer, owner, the claim's labels, annotations and taints, unregistered removed, registered=true. n is
// not changed. A Node that is registered already is returned as it is: nothing is synced later, since that
// would restore a startup taint that had been removed.
func RegisteredNode(n *corev1.Node, o *karpv1.NodeClaim) *corev1.Node {
	if IsRegistered(n) {
		return n
	}
	out := n.DeepCopy()
	if !slices.Contains(out.Finalizers, karpv1.TerminationFinalizer) {
		out.Finalizers = append(out.Finalizers, karpv1.TerminationFinalizer)
	}
	out.OwnerReferences = withOwner(out.OwnerReferences, o)
	if out.Labels[karpv1.DoNotSyncTaintsLabelKey] != "true" {
		out.Spec.Taints = withTaints(out.Spec.Taints, o.Spec.Taints, o.Spec.StartupTaints)
	}
	unregistered := karpv1.UnregisteredTaint()
	out.Spec.Taints = slices.DeleteFunc(out.Spec.Taints, func(t corev1.Taint) bool {
		return t.Key == unregistered.Key && t.Effect == unregistered.Effect
	})
	out.Labels = overlaid(out.Labels, o.Labels)
	out.Labels[karpv1.NodeRegisteredLabelKey] = "true"
	out.Annotations = overlaid(out.Annotations, o.Annotations)
	return out
}

// AwaitsPartition reports that an instance is in a partition of a placement group that is not known yet; its
// Node is not registered before it has that label (reference: ec2 §2.6).
func AwaitsPartition(labels map[string]string) bool {
	number, there := labels[awsv1.LabelPlacementGroupPartition]
	return there && number == ""
}

// MissesUnregisteredTaint reports a Node that joined without the taint that keeps pods off until it is
// registered.
func MissesUnregisteredTaint(n *corev1.Node) bool {
	return n.Labels[karpv1.NodeRegisteredLabelKey] == "" && !taint.In(n.Spec.Taints, karpv1.UnregisteredTaint())
}

func withOwner(owners []metav1.OwnerReference, o *karpv1.NodeClaim) []metav1.OwnerReference {
	if slices.ContainsFunc(owners, func(r metav1.OwnerReference) bool { return r.UID == o.UID }) {
		return owners
	}
	block := true
	return append(owners, metav1.OwnerReference{
		APIVersion: karpv1.SchemeGroupVersion.String(), Kind: "NodeClaim", Name: o.Name, UID: o.UID, BlockOwnerDeletion: &block,
	})
}

func withTaints(taints []corev1.Taint, lists ...[]corev1.Taint) []corev1.Taint {
	for _, list := range lists {
		for _, t := range list {
			if !taint.In(taints, t) {
				taints = append(taints, t)
			}
		}
	}
	return taints
}

// overlaid returns base with over on top; never nil.
func overlaid(base, over map[string]string) map[string]string {
	out := make(map[string]string, len(base)+len(over))
	maps.Copy(out, base)
	maps.Copy(out, over)
	return out
}
