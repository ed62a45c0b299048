package claim_test

import (
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"millwright/api/drifthash"
	karpv1 "millwright/api/karpenter/v1"
	awsv1 "millwright/api/karpenteraws/v1"
	"millwright/planner/claim"
	"millwright/planner/ledger"
)

func TestWhatIsInherited(t *testing.T) {
	owner := metav1.OwnerReference{APIVersion: "karpenter.sh/v1", Kind: "NodePool", Name: "default"}
	cases := map[string]struct {
		change    func(*karpv1.NodeClaim)
		inherited bool
	}{
		"made by hand": {func(*karpv1.NodeClaim) {}, false},
		"made by hand, in an application": {func(o *karpv1.NodeClaim) {
			o.OwnerReferences = []metav1.OwnerReference{{APIVersion: "apps/v1", Kind: "Deployment"}}
		}, false},
		"guarded by a controller":           {func(o *karpv1.NodeClaim) { o.Finalizers = []string{karpv1.TerminationFinalizer} }, true},
		"made for a NodePool":               {func(o *karpv1.NodeClaim) { o.OwnerReferences = []metav1.OwnerReference{owner} }, true},
		"with a condition":                  {func(o *karpv1.NodeClaim) { o.Status.Conditions = []metav1.Condition{{Type: "Launched"}} }, true},
		"planned in another log":            {func(o *karpv1.NodeClaim) { o.Annotations = map[string]string{karpv1.RecordAnnotationKey: "other/7"} }, true},
		"planned in this log, and given up": {func(o *karpv1.NodeClaim) { o.Annotations = map[string]string{karpv1.RecordAnnotationKey: "own/7"} }, false},
		"with an instance": {func(o *karpv1.NodeClaim) {
			o.Finalizers, o.Status.ProviderID = []string{karpv1.TerminationFinalizer}, "aws:///a/i-1"
		}, false},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			o := &karpv1.NodeClaim{}
			c.change(o)
			if got := claim.FactsOfObject(o, nil, "own").Inherited; got != c.inherited {
				t.Errorf("inherited = %v", got)
			}
		})
	}
	planned := &ledger.Claim{Planned: &ledger.PlannedClaim{}, PlannedSeq: 7}
	if claim.FactsOfObject(&karpv1.NodeClaim{ObjectMeta: metav1.ObjectMeta{Finalizers: []string{karpv1.TerminationFinalizer}}}, planned, "own").Inherited {
		t.Error("what this log planned is inherited")
	}
}

// karpenterPool is a NodePool as Karpenter leaves it, and a claim made of it.
func karpenterPool() (*karpv1.NodePool, *karpv1.NodeClaim) {
	p := &karpv1.NodePool{ObjectMeta: metav1.ObjectMeta{Name: "default", Generation: 3, Annotations: map[string]string{
		karpv1.NodePoolHashAnnotationKey: "11", karpv1.NodePoolHashVersionAnnotationKey: "v2"}}}
	ref := karpv1.NodeClassReference{Group: awsv1.Group, Kind: "EC2NodeClass", Name: "default"}
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
			stamped, differ := claim.Restamped(o, p)
			if !differ || stamped[karpv1.NodePoolHashVersionAnnotationKey] != claim.PoolHashVersion {
				t.Fatalf("not stamped: %v", stamped)
			}
			if drifts := stamped[karpv1.NodePoolHashAnnotationKey] != claim.PoolHash(p); drifts != c.drifts {
				t.Errorf("drifts = %v, want %v", drifts, c.drifts)
			}
			o.Annotations = stamped
			if _, again := claim.Restamped(o, p); again {
				t.Error("stamped twice")
			}
		})
	}
}

// Karpenter 1.0 leaves conditions without a generation.
func TestAdoptedConditionsStayReady(t *testing.T) {
	_, o := karpenterPool()
	o.Generation, o.Status.ProviderID = 1, "aws:///a/i-1"
	since := metav1.NewTime(t0.Add(-time.Hour))
	for _, kind := range []string{"Initialized", "Launched", "Ready", "Registered"} {
		o.Status.Conditions = append(o.Status.Conditions, metav1.Condition{Type: kind, Status: "True", Reason: kind, LastTransitionTime: since})
	}
	for _, c := range claim.Desired(o, nil, nil, nil, nil, t0).Status.Conditions {
		if c.Status != "True" || c.ObservedGeneration != 1 || !c.LastTransitionTime.Equal(&since) {
			t.Errorf("%+v", c)
		}
	}
}

func TestHydration(t *testing.T) {
	_, o := karpenterPool()
	n := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "n", Labels: map[string]string{karpv1.NodeRegisteredLabelKey: "true"}}}
	got := claim.Hydrated(n, o)
	if got == nil || got.Labels[awsv1.LabelEC2NodeClass] != "default" || n.Labels[awsv1.LabelEC2NodeClass] != "" {
		t.Fatalf("hydrated node: %v", got)
	}
	if claim.Hydrated(got, o) != nil {
		t.Error("hydrated twice")
	}
	joining := &corev1.Node{Spec: corev1.NodeSpec{Taints: []corev1.Taint{karpv1.UnregisteredTaint()}}}
	if claim.Hydrated(joining, o) != nil {
		t.Error("a node that is not registered is written beside registration")
	}
	want := claim.Desired(o, nil, nil, nil, nil, t0)
	if want.Labels[awsv1.LabelEC2NodeClass] != "default" || want.Labels["team"] != "blue" {
		t.Errorf("hydrated claim: %v", want.Labels)
	}
}
