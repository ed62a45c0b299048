package nodepool_test

import (
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"millwright/api/drifthash"
	karpv1 "millwright/api/karpenter/v1"
	awsv1 "millwright/api/karpenteraws/v1"
	"millwright/planner/nodepool"
)

// karpenterPool is a NodePool as Karpenter leaves it, and a claim made of it.
func karpenterPool() (*karpv1.NodePool, *karpv1.NodeClaim) {
	p := &karpv1.NodePool{ObjectMeta: metav1.ObjectMeta{Name: "default", Generation: 3, Annotations: map[string]string{
		karpv1.NodePoolHashAnnotationKey: "11", karpv1.NodePoolHashVersionAnnotationKey: "v2"}}}
	ref := karpv1.NodeClassReference{Group: awsv1.Group, Kind: awsv1.KindNodeClass, Name: "default"}
	p.Spec.Template.Labels = map[string]string{"team": "blue"}
	p.Spec.Template.Spec.Taints = []corev1.Taint{{Key: "a", Effect: corev1.TaintEffectNoSchedule}}
	p.Spec.Template.Spec.NodeClassRef, p.Spec.Template.Spec.ExpireAfter = &ref, karpv1.NewDuration(720*time.Hour)
	p.Status.Conditions = []metav1.Condition{{Type: "Ready", Status: "True", ObservedGeneration: 3}}
	own := ref
	o := &karpv1.NodeClaim{
		ObjectMeta: metav1.ObjectMeta{Name: "default-x", Labels: map[string]string{"team": "blue", "karpenter.sh/nodepool": "default"}, Annotations: map[string]string{
			karpv1.NodePoolHashAnnotationKey: "11", karpv1.NodePoolHashVersionAnnotationKey: "v2"}},
		Spec: karpv1.NodeClaimSpec{Taints: p.Spec.Template.Spec.Taints, NodeClassRef: &own, ExpireAfter: karpv1.NewDuration(720 * time.Hour)},
	}
	return p, o
}

// stampMW1 gives both the same hash of Millwright's first algorithm.
func stampMW1(p *karpv1.NodePool, o *karpv1.NodeClaim, hash string) {
	for _, a := range []map[string]string{p.Annotations, o.Annotations} {
		a[karpv1.NodePoolHashAnnotationKey], a[karpv1.NodePoolHashVersionAnnotationKey] = hash, drifthash.MW1
	}
}

func TestAChangeOfHashVersionDriftsNothingAndForgetsNoDrift(t *testing.T) {
	cases := map[string]struct {
		change func(*karpv1.NodePool, *karpv1.NodeClaim)
		drifts bool
	}{
		"equal hashes of karpenter": {func(*karpv1.NodePool, *karpv1.NodeClaim) {}, false},
		"a claim that differed already": {func(_ *karpv1.NodePool, o *karpv1.NodeClaim) {
			o.Annotations[karpv1.NodePoolHashAnnotationKey] = "12"
		}, true},
		"a claim that is known to have drifted": {func(_ *karpv1.NodePool, o *karpv1.NodeClaim) {
			o.Status.Conditions = []metav1.Condition{{Type: karpv1.ConditionTypeDrifted, Status: "True"}}
		}, true},
		"hashes of two versions are not compared": {func(_ *karpv1.NodePool, o *karpv1.NodeClaim) {
			o.Annotations[karpv1.NodePoolHashVersionAnnotationKey], o.Annotations[karpv1.NodePoolHashAnnotationKey] = "v1", "99"
		}, false},
		"hashes without a version are not compared": {func(p *karpv1.NodePool, o *karpv1.NodeClaim) {
			delete(p.Annotations, karpv1.NodePoolHashVersionAnnotationKey)
			delete(o.Annotations, karpv1.NodePoolHashVersionAnnotationKey)
			o.Annotations[karpv1.NodePoolHashAnnotationKey] = "99"
		}, false},
		"a claim without annotations": {func(_ *karpv1.NodePool, o *karpv1.NodeClaim) { o.Annotations = nil }, false},
		"a template that was edited while nobody ran": {func(p *karpv1.NodePool, _ *karpv1.NodeClaim) {
			p.Generation, p.Spec.Template.Labels = 4, map[string]string{"team": "red"}
		}, true},
		"a taint that was added while nobody ran": {func(p *karpv1.NodePool, _ *karpv1.NodeClaim) {
			p.Generation, p.Spec.Template.Spec.Taints = 4, append(p.Spec.Template.Spec.Taints, corev1.Taint{Key: "b", Effect: "NoExecute"})
		}, true},
		"an expiry that was changed while nobody ran": {func(p *karpv1.NodePool, _ *karpv1.NodeClaim) {
			p.Generation, p.Spec.Template.Spec.ExpireAfter = 4, karpv1.NewDuration(time.Hour)
		}, true},
		"a pool whose limits alone were edited while nobody ran": {func(p *karpv1.NodePool, _ *karpv1.NodeClaim) { p.Generation = 4 }, false},
		"mw1 in sync": {func(p *karpv1.NodePool, o *karpv1.NodeClaim) { stampMW1(p, o, drifthash.NodePoolMW1(p.Spec.Template)) }, false},
		"mw1 drifted": {func(p *karpv1.NodePool, o *karpv1.NodeClaim) { stampMW1(p, o, "1") }, true},
		"mw1 of a template that was edited while nobody ran": {func(p *karpv1.NodePool, o *karpv1.NodeClaim) {
			stampMW1(p, o, drifthash.NodePoolMW1(p.Spec.Template))
			p.Spec.Template.Annotations = map[string]string{"a": "b"}
		}, true},
		"karpenter 1.0 names no generation": {func(p *karpv1.NodePool, _ *karpv1.NodeClaim) {
			p.Generation, p.Status.Conditions[0].ObservedGeneration, p.Spec.Template.Labels = 4, 0, map[string]string{"team": "red"}
		}, false},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			p, o := karpenterPool()
			c.change(p, o)
			stamped, differ := nodepool.Restamped(o, p)
			if !differ || stamped[karpv1.NodePoolHashVersionAnnotationKey] != nodepool.HashVersion {
				t.Fatalf("not stamped: %v", stamped)
			}
			if drifts := stamped[karpv1.NodePoolHashAnnotationKey] != nodepool.Hash(p); drifts != c.drifts {
				t.Errorf("drifts = %v, want %v", drifts, c.drifts)
			}
			o.Annotations = stamped
			if _, again := nodepool.Restamped(o, p); again {
				t.Error("stamped twice")
			}
		})
	}
}

func pool() *karpv1.NodePool {
	p := &karpv1.NodePool{ObjectMeta: metav1.ObjectMeta{Name: "default"}}
	p.Spec.Template.Labels = map[string]string{"a": "1"}
	p.Spec.Template.Spec.Taints = []corev1.Taint{{Key: "x", Effect: "NoSchedule"}, {Key: "y", Effect: "NoSchedule"}}
	p.Spec.Template.Spec.ExpireAfter = karpv1.NewDuration(720 * time.Hour)
	return p
}

// The rules: api §4.
func TestHash(t *testing.T) {
	base := nodepool.Hash(pool())
	same := map[string]func(*karpv1.NodePool){
		"order of taints":    func(p *karpv1.NodePool) { s := p.Spec.Template.Spec.Taints; s[0], s[1] = s[1], s[0] },
		"durations by value": func(p *karpv1.NodePool) { p.Spec.Template.Spec.ExpireAfter.Raw = "43200m" },
		"requirements and the rest": func(p *karpv1.NodePool) {
			p.Spec.Template.Spec.Requirements = []karpv1.NodeSelectorRequirementWithMinValues{{Key: "a", Operator: "Exists"}}
			p.Spec.Limits, p.Name = karpv1.Limits{"cpu": resource.MustParse("1")}, "other"
		},
	}
	for name, change := range same {
		p := pool()
		change(p)
		if nodepool.Hash(p) != base {
			t.Errorf("%s: hash moved", name)
		}
	}
	empty := pool()
	empty.Spec.Template.Annotations, empty.Spec.Template.Spec.StartupTaints = map[string]string{}, []corev1.Taint{}
	if nodepool.Hash(empty) == base {
		t.Error("Karpenter's hash tells empty from absent")
	}
	for _, hash := range []string{base, nodepool.Hash(empty)} {
		if same, known := nodepool.SameHash(empty, hash, nodepool.HashVersion); !same || !known {
			t.Errorf("%s is not in sync with a template that has empty lists", hash)
		}
	}
	differ := map[string]func(*karpv1.NodePool){
		"label":   func(p *karpv1.NodePool) { p.Spec.Template.Labels["a"] = "2" },
		"effect":  func(p *karpv1.NodePool) { p.Spec.Template.Spec.Taints[0].Effect = "NoExecute" },
		"startup": func(p *karpv1.NodePool) { p.Spec.Template.Spec.StartupTaints = p.Spec.Template.Spec.Taints },
		"expiry":  func(p *karpv1.NodePool) { p.Spec.Template.Spec.ExpireAfter = karpv1.NillableDuration{Raw: "Never"} },
	}
	for name, change := range differ {
		p := pool()
		change(p)
		if nodepool.Hash(p) == base {
			t.Errorf("%s: hash stayed", name)
		}
	}
}

// The rules: api §4.
func TestRestampingRollsNothingAndHidesNothing(t *testing.T) {
	annotated := func(hash, version string) map[string]string {
		a := map[string]string{}
		if version != "" {
			a[karpv1.NodePoolHashAnnotationKey], a[karpv1.NodePoolHashVersionAnnotationKey] = hash, version
		}
		return a
	}
	mine := nodepool.Hash(pool())
	cases := map[string]struct {
		pool, claim map[string]string
		drifted     bool
		want        string
	}{
		"in sync by the old algorithm": {pool: annotated("7", "v2"), claim: annotated("7", "v2"), want: mine},
		"drifted by the old algorithm": {pool: annotated("8", "v2"), claim: annotated("7", "v2"), want: "7"},
		"marked drifted":               {pool: annotated("7", "v2"), claim: annotated("7", "v2"), drifted: true, want: "7"},
		"of an even older algorithm":   {pool: annotated("8", "v2"), claim: annotated("7", "v1"), want: mine},
		"never stamped":                {pool: annotated("8", "v2"), claim: annotated("", ""), want: mine},
		"stamped by this algorithm":    {pool: annotated("8", "v2"), claim: annotated("7", nodepool.HashVersion), want: "7"},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			p, o := pool(), &karpv1.NodeClaim{}
			p.Annotations, o.Annotations = c.pool, c.claim
			if c.drifted {
				o.Status.Conditions = []metav1.Condition{{Type: "Drifted", Status: "True"}}
			}
			got, differ := nodepool.Restamped(o, p)
			if !differ {
				got = o.Annotations
			}
			if got[karpv1.NodePoolHashAnnotationKey] != c.want || got[karpv1.NodePoolHashVersionAnnotationKey] != nodepool.HashVersion {
				t.Errorf("annotations = %v, want hash %s", got, c.want)
			}
		})
	}
}
