package claim_test

import (
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

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

// adopted is a NodeClaim as Karpenter leaves it.
func adopted() *karpv1.NodeClaim {
	return &karpv1.NodeClaim{
		ObjectMeta: metav1.ObjectMeta{Name: "default-x", Labels: map[string]string{"team": "blue", "karpenter.sh/nodepool": "default"}},
		Spec: karpv1.NodeClaimSpec{
			NodeClassRef: &karpv1.NodeClassReference{Group: awsv1.Group, Kind: awsv1.KindNodeClass, Name: "default"},
			Taints:       []corev1.Taint{{Key: "a", Effect: corev1.TaintEffectNoSchedule}}, ExpireAfter: karpv1.NewDuration(720 * time.Hour),
		},
	}
}

// Karpenter 1.0 leaves conditions without a generation.
func TestAdoptedConditionsStayReady(t *testing.T) {
	o := adopted()
	o.Generation, o.Status.ProviderID = 1, "aws:///a/i-1"
	since := metav1.NewTime(t0.Add(-time.Hour))
	for _, kind := range []string{"Initialized", "Launched", "Ready", "Registered"} {
		o.Status.Conditions = append(o.Status.Conditions, metav1.Condition{Type: kind, Status: "True", Reason: kind, LastTransitionTime: since})
	}
	for _, c := range claim.Desired(o, claim.StatusFacts{}, t0).Status.Conditions {
		if c.Status != "True" || c.ObservedGeneration != 1 || !c.LastTransitionTime.Equal(&since) {
			t.Errorf("%+v", c)
		}
	}
}

func TestHydration(t *testing.T) {
	o := adopted()
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
	want := claim.Desired(o, claim.StatusFacts{}, t0)
	if want.Labels[awsv1.LabelEC2NodeClass] != "default" || want.Labels["team"] != "blue" {
		t.Errorf("hydrated claim: %v", want.Labels)
	}
}
