package claim

import (
	"crypto/sha256"
	"encoding/binary"
	"encoding/json"
	"maps"
	"slices"
	"strconv"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	karpv1 "millwright/api/karpenter/v1"
)

// PoolHashVersion names the algorithm of PoolHash. Hashes of different versions are never compared.
const PoolHashVersion = "mw1"

// PoolHash is the decimal 64-bit hash of everything in the template that is compared by hash: all but the
// requirements, which are compared with labels (reference: api §4). Lists are sets, absent equals empty, durations
// count by value.
func PoolHash(p *karpv1.NodePool) string {
	t := p.Spec.Template
	fields := struct {
		Labels, Annotations   map[string]string
		Taints, StartupTaints []string
		NodeClass             *karpv1.NodeClassReference
		GracePeriod, Expire   string
	}{
		t.Labels, t.Annotations, taintSet(t.Spec.Taints), taintSet(t.Spec.StartupTaints), t.Spec.NodeClassRef, "", "",
	}
	if g := t.Spec.TerminationGracePeriod; g != nil {
		fields.GracePeriod = g.Duration.String()
	}
	if e := t.Spec.ExpireAfter; e.Duration != nil {
		fields.Expire = e.Duration.String()
	}
	if len(fields.Labels) == 0 {
		fields.Labels = nil
	}
	if len(fields.Annotations) == 0 {
		fields.Annotations = nil
	}
	data, err := json.Marshal(fields)
	if err != nil {
		panic("claim: strings cannot be encoded: " + err.Error())
	}
	sum := sha256.Sum256(data)
	return strconv.FormatUint(binary.BigEndian.Uint64(sum[:8]), 10)
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
	edited := differs(o.Annotations, pool.Annotations) || unseen(pool) && !madeOf(o, pool)
	if !edited && !IsTrue(o.Status.Conditions, karpv1.ConditionTypeDrifted) {
		out[karpv1.NodePoolHashAnnotationKey] = PoolHash(pool)
	}
	return out, true
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
	c := Get(pool.Status.Conditions, karpv1.ConditionTypeReady)
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
