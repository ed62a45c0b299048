package lifecycle

import (
	"context"
	"errors"
	"testing"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"

	karpv1 "millwright/api/karpenter/v1"
	awsv1 "millwright/api/karpenteraws/v1"
	"millwright/planner/condition"
)

// guarded is an API server with a policy of admission: nobody but CI changes NodePools, or one NodeClaim.
type guarded struct {
	Kube
	pools bool
	claim string
}

func denied(name string) error {
	return apierrors.NewForbidden(schema.GroupResource{Group: karpv1.Group, Resource: "objects"}, name, errors.New(`ValidatingAdmissionPolicy 'p' with binding 'b' denied request: only CI`))
}

func (g guarded) UpdateNodePool(ctx context.Context, before, after *karpv1.NodePool) (*karpv1.NodePool, error) {
	if g.pools {
		return nil, denied(before.Name)
	}
	return g.Kube.UpdateNodePool(ctx, before, after)
}

func (g guarded) UpdateNodeClaim(ctx context.Context, before, after *karpv1.NodeClaim) (*karpv1.NodeClaim, error) {
	if before.Name == g.claim {
		return nil, denied(before.Name)
	}
	return g.Kube.UpdateNodeClaim(ctx, before, after)
}

// The status of a NodePool is written, and it becomes Ready, also where its annotations may not be.
func TestAPoolWhoseHashMayNotBeWrittenBecomesReady(t *testing.T) {
	for name, g := range map[string]guarded{"nobody changes NodePools": {pools: true}, "nobody changes one NodeClaim of it": {claim: "old"}} {
		t.Run(name, func(t *testing.T) {
			r := newRig(t)
			if g.claim != "" { // of Karpenter 0.37, whose hash has another version
				r.kube.put(&r.kube.claims, &karpv1.NodeClaim{
					ObjectMeta: metav1.ObjectMeta{Name: "old", Generation: 1, CreationTimestamp: metav1.NewTime(r.now.Add(-time.Hour)),
						Finalizers: []string{karpv1.TerminationFinalizer}, Labels: map[string]string{karpv1.NodePoolLabelKey: "default"},
						Annotations: map[string]string{karpv1.NodePoolHashAnnotationKey: "1", karpv1.NodePoolHashVersionAnnotationKey: "v2"}},
					Spec:   karpv1.NodeClaimSpec{NodeClassRef: &karpv1.NodeClassReference{Group: awsv1.Group, Kind: "EC2NodeClass", Name: "default"}},
					Status: karpv1.NodeClaimStatus{ProviderID: "aws:///eu-1a/i-old", Conditions: []metav1.Condition{{Type: karpv1.ConditionTypeLaunched, Status: "True", Reason: "Launched", LastTransitionTime: metav1.NewTime(r.now)}}},
				})
				r.launchElsewhere("i-old", "old", time.Hour)
			}
			r.with(func(d *Deps) { h := g; h.Kube = d.Kube; d.Kube = h })
			r.wait(2 * time.Minute)
			p := r.kube.pools["default"]
			if !condition.IsTrue(p.Status.Conditions, karpv1.ConditionTypeReady) {
				t.Errorf("after two minutes its status is %+v; errors %v", p.Status, r.failed[max(0, len(r.failed)-2):])
			}
		})
	}
}
