package nodepool

import (
	"maps"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"millwright/api/drifthash"
	karpv1 "millwright/api/karpenter/v1"
	"millwright/planner/condition"
)

// HashVersion names the algorithm of Hash.
const HashVersion = drifthash.NodePoolVersion

// Hash is the hash that the pool should have, of everything in the template that is compared by hash: all but
// the requirements, which are compared with labels (reference: api §4).
func Hash(p *karpv1.NodePool) string { return drifthash.NodePool(p.Spec.Template) }

// VersionsRead are the versions of the algorithm that can be computed: the present one first.
var VersionsRead = [...]string{HashVersion, drifthash.MW1}

// Hashes by that version each of which is in sync with the pool; none if the version cannot be computed.
func Hashes(p *karpv1.NodePool, version string) []string {
	switch version {
	case HashVersion:
		return drifthash.NodePools(p.Spec.Template)
	case drifthash.MW1:
		return []string{drifthash.NodePoolMW1(p.Spec.Template)}
	}
	return nil
}

// SameHash reports whether a hash of that version is the pool's; known is false for versions that cannot be
// computed, and without a hash.
func SameHash(p *karpv1.NodePool, hash, version string) (same, known bool) {
	if hash == "" {
		return false, false
	}
	all := Hashes(p, version)
	return slices.Contains(all, hash), len(all) > 0
}

// taintSet is sorted and distinct; it ignores when a taint was added.
func taintSet(taints []corev1.Taint) []string {
	var texts []string
	for _, t := range taints {
		texts = append(texts, t.Key+"="+t.Value+":"+string(t.Effect))
	}
	slices.Sort(texts)
	return slices.Compact(texts)
}

// HashAnnotations are the hash annotations a NodePool should have, and each NodeClaim made of it.
func HashAnnotations(p *karpv1.NodePool) map[string]string {
	return map[string]string{
		karpv1.NodePoolHashAnnotationKey: Hash(p), karpv1.NodePoolHashVersionAnnotationKey: HashVersion,
	}
}

// Restamped returns the annotations that a NodeClaim of the pool gets when the pool's hash comes from another
// version of the algorithm (reference: api §4), and whether they differ. pool is as it was before it gets its
// own new hash. Nothing drifts because of it; a claim that had drifted stays so, because its hash is kept.
func Restamped(o *karpv1.NodeClaim, pool *karpv1.NodePool) (map[string]string, bool) {
	if o.Annotations[karpv1.NodePoolHashVersionAnnotationKey] == HashVersion {
		return nil, false
	}
	out := maps.Clone(o.Annotations)
	if out == nil {
		out = map[string]string{}
	}
	out[karpv1.NodePoolHashVersionAnnotationKey] = HashVersion
	if !edited(o, pool) && !condition.IsTrue(o.Status.Conditions, karpv1.ConditionTypeDrifted) {
		out[karpv1.NodePoolHashAnnotationKey] = Hash(pool)
	}
	return out, true
}

// edited reports that the claim was made from another template than the pool's present one, as far as that
// can be known.
func edited(o *karpv1.NodeClaim, pool *karpv1.NodePool) bool {
	hash, version := o.Annotations[karpv1.NodePoolHashAnnotationKey], o.Annotations[karpv1.NodePoolHashVersionAnnotationKey]
	if same, known := SameHash(pool, hash, version); known {
		return !same
	}
	return differs(o.Annotations, pool.Annotations) || Unseen(pool) && !madeOf(o, pool)
}

// differs reports that both carry hashes of the same version that are not equal: a hash without its version,
// or a version without a hash, proves nothing.
func differs(claim, pool map[string]string) bool {
	version, hash := claim[karpv1.NodePoolHashVersionAnnotationKey], claim[karpv1.NodePoolHashAnnotationKey]
	ofPool := pool[karpv1.NodePoolHashAnnotationKey]
	return version != "" && version == pool[karpv1.NodePoolHashVersionAnnotationKey] && hash != "" && ofPool != "" && hash != ofPool
}

// Unseen reports that the pool was edited while no controller ran: its hash is of an earlier generation than
// its spec. Conditions of Karpenter 1.0 have no generation, so there it cannot be known.
func Unseen(pool *karpv1.NodePool) bool {
	c := condition.Get(pool.Status.Conditions, karpv1.ConditionTypeReady)
	return c != nil && c.ObservedGeneration != 0 && c.ObservedGeneration < pool.Generation
}

// madeOf compares claim and template field by field, as far as the claim shows the template: it carries more
// labels and annotations than the template gave it.
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
