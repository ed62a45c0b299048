package claim

import (
	"maps"
	"slices"
	"time"

	"millwright/planner/condition"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"millwright/api/drifthash"
	karpv1 "millwright/api/karpenter/v1"
)

// PoolHashVersion names the algorithm of PoolHash.
const PoolHashVersion = drifthash.NodePoolVersion

// PoolHash is the hash that the pool should bear, of everything in the template that is compared by hash: all but the requirements, which are compared with
// labels (reference: api §4).
func PoolHash(p *karpv1.NodePool) string { return drifthash.NodePool(p.Spec.Template) }

// SamePoolHash reports whether a hash of that version is the pool's; known is false for versions that cannot be computed, and
// without a hash.
func SamePoolHash(p *karpv1.NodePool, hash, version string) (same, known bool) {
	switch {
	case hash == "":
		return false, false
	case version == PoolHashVersion:
		return slices.Contains(drifthash.NodePools(p.Spec.Template), hash), true
	case version == drifthash.MW1:
		return hash == drifthash.NodePoolMW1(p.Spec.Template), true
	}
	return false, false
}

// taintSet is sorted and distinct; when a taint was added does not count.
func taintSet(taints []corev1.Taint) []string {
	var texts []string
	for _, t := range taints {
		texts = append(texts, t.Key+"="+t.Value+":"+string(t.Effect))
	}
	slices.Sort(texts)
	return slices.Compact(texts)
}

// PoolAnnotations are the hash annotations a NodePool should bear, and each NodeClaim made of it.
func PoolAnnotations(p *karpv1.NodePool) map[string]string {
	return map[string]string{
		karpv1.NodePoolHashAnnotationKey: PoolHash(p), karpv1.NodePoolHashVersionAnnotationKey: PoolHashVersion,
	}
}

// Restamped returns the annotations a NodeClaim of the pool gets when the pool's hash comes from another
// version of the algorithm (reference: api §4), and whether they differ. pool is as it was before it gets its
// own new hash. Nothing drifts by that; what had drifted already stays so, because its hash is kept.
func Restamped(o *karpv1.NodeClaim, pool *karpv1.NodePool) (map[string]string, bool) {
	if o.Annotations[karpv1.NodePoolHashVersionAnnotationKey] == PoolHashVersion {
		return nil, false
	}
	out := maps.Clone(o.Annotations)
	if out == nil {
		out = map[string]string{}
	}
	out[karpv1.NodePoolHashVersionAnnotationKey] = PoolHashVersion
	if !edited(o, pool) && !condition.IsTrue(o.Status.Conditions, karpv1.ConditionTypeDrifted) {
		out[karpv1.NodePoolHashAnnotationKey] = PoolHash(pool)
	}
	return out, true
}

// edited reports that the claim was made of another template than the pool's present one, as far as that can be known.
func edited(o *karpv1.NodeClaim, pool *karpv1.NodePool) bool {
	hash, version := o.Annotations[karpv1.NodePoolHashAnnotationKey], o.Annotations[karpv1.NodePoolHashVersionAnnotationKey]
	if same, known := SamePoolHash(pool, hash, version); known {
		return !same
	}
	return differs(o.Annotations, pool.Annotations) || unseen(pool) && !madeOf(o, pool)
}

// differs reports that both bear hashes of the same version and they are not equal: a hash that lacks its version, or a version
// without a hash, says nothing.
func differs(claim, pool map[string]string) bool {
	version, hash := claim[karpv1.NodePoolHashVersionAnnotationKey], claim[karpv1.NodePoolHashAnnotationKey]
	ofPool := pool[karpv1.NodePoolHashAnnotationKey]
	return version != "" && version == pool[karpv1.NodePoolHashVersionAnnotationKey] && hash != "" && ofPool != "" && hash != ofPool
}

// unseen reports that the pool was edited while no controller ran: its hash is of an earlier generation than its spec. Conditions of
// Karpenter 1.0 bear no generation, so there it cannot be known.
func unseen(pool *karpv1.NodePool) bool {
	c := condition.Get(pool.Status.Conditions, karpv1.ConditionTypeReady)
	return c != nil && c.ObservedGeneration != 0 && c.ObservedGeneration < pool.Generation
}

// madeOf compares claim and template field by field, as far as the claim shows the template: it bears more labels and annotations than
// the template gave it.
func madeOf(o *karpv1.NodeClaim, pool *karpv1.NodePool) bool {
	t := pool.Spec.Template
	return includes(o.Labels, t.Labels) && includes(o.Annotations, t.Annotations) &&
		slices.Equal(taintSet(o.Spec.Taints), taintSet(t.Spec.Taints)) && slices.Equal(taintSet(o.Spec.StartupTaints), taintSet(t.Spec.StartupTaints)) &&
		equal(o.Spec.NodeClassRef, t.Spec.NodeClassRef) && equal(o.Spec.ExpireAfter.Duration, t.Spec.ExpireAfter.Duration) &&
		graceOf(o.Spec.TerminationGracePeriod) == graceOf(t.Spec.TerminationGracePeriod)
}

func includes(all, some map[string]string) bool {
	for k, v := range some {
		if have, there := all[k]; !there || have != v {
			return false
		}
	}
	return true
}

func equal[T comparable](a, b *T) bool { return a == b || a != nil && b != nil && *a == *b }

func graceOf(d *metav1.Duration) time.Duration {
	if d == nil {
		return -1
	}
	return d.Duration
}
