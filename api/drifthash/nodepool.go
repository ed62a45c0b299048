package drifthash

import (
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	karpv1 "millwright/api/karpenter/v1"
)

// NodePoolVersion is the version of NodePool.
const NodePoolVersion = "v3"

// NodeClaimTemplate and the types below it have the names and fields that enter the hash.
type NodeClaimTemplate struct {
	ObjectMeta
	Spec NodeClaimTemplateSpec
}

type ObjectMeta struct {
	Labels, Annotations map[string]string
}

type NodeClaimTemplateSpec struct {
	Taints, StartupTaints  []corev1.Taint
	NodeClassRef           *NodeClassReference
	TerminationGracePeriod *metav1.Duration
	ExpireAfter            NillableDuration
}

type NodeClassReference struct {
	Kind, Name, Group string
}

type NillableDuration struct {
	*time.Duration
}

// NodePools are the v3 hashes that are in sync with the template: that of the template as written, in which a
// list or map that is there and empty differs from one that is absent, and that of the template without what
// is empty, as it is in an object that was encoded again on its way; and both as a process wrote them
// formerly, with times in its local zone.
func NodePools(t karpv1.NodeClaimTemplate) []string {
	plain := t
	plain.Labels, plain.Annotations = noEmptyMap(t.Labels), noEmptyMap(t.Annotations)
	plain.Spec.Taints, plain.Spec.StartupTaints = noEmptyList(t.Spec.Taints), noEmptyList(t.Spec.StartupTaints)
	hashes := []string{NodePool(t)}
	add := func(other string) {
		if !slices.Contains(hashes, other) {
			hashes = append(hashes, other)
		}
	}
	if add(NodePool(plain)); slices.ContainsFunc(slices.Concat(t.Spec.Taints, t.Spec.StartupTaints), isTimed) {
		add(structural(hashedTemplate(t)))
		add(structural(hashedTemplate(plain)))
	}
	return hashes
}

func isTimed(t corev1.Taint) bool { return t.TimeAdded != nil }

func noEmptyMap(m map[string]string) map[string]string {
	if len(m) == 0 {
		return nil
	}
	return m
}

func noEmptyList(taints []corev1.Taint) []corev1.Taint {
	if len(taints) == 0 {
		return nil
	}
	return taints
}

// inOneZone are the taints with their times as a process reads them whose local zone is UTC, as Karpenter's
// is: the zone of a time enters the hash.
func inOneZone(taints []corev1.Taint) []corev1.Taint {
	if !slices.ContainsFunc(taints, isTimed) {
		return taints
	}
	taints = slices.Clone(taints)
	for i := range taints {
		if at := taints[i].TimeAdded; at != nil {
			taints[i].TimeAdded = &metav1.Time{Time: at.In(time.FixedZone("", 0))}
		}
	}
	return taints
}

// NodePool is the v3 hash of the template as it is written.
func NodePool(t karpv1.NodeClaimTemplate) string {
	t.Spec.Taints, t.Spec.StartupTaints = inOneZone(t.Spec.Taints), inOneZone(t.Spec.StartupTaints)
	return structural(hashedTemplate(t))
}

func hashedTemplate(t karpv1.NodeClaimTemplate) NodeClaimTemplate {
	out := NodeClaimTemplate{
		ObjectMeta: ObjectMeta{Labels: t.Labels, Annotations: t.Annotations},
		Spec: NodeClaimTemplateSpec{
			Taints: t.Spec.Taints, StartupTaints: t.Spec.StartupTaints, TerminationGracePeriod: t.Spec.TerminationGracePeriod,
			ExpireAfter: NillableDuration{t.Spec.ExpireAfter.Duration},
		},
	}
	if r := t.Spec.NodeClassRef; r != nil {
		out.Spec.NodeClassRef = &NodeClassReference{Kind: r.Kind, Name: r.Name, Group: r.Group}
	}
	return out
}
