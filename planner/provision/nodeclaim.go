package provision

import (
	"maps"
	"slices"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	karpv1 "millwright/api/karpenter/v1"
	"millwright/planner/ledger"
)

// NodeClaim returns the object of a planned claim: the index-th of the record seq of the log. The result
// depends on nothing else, so making it again after a crash gives the same bytes.
func NodeClaim(logID string, seq uint64, index int, p ledger.PlannedClaim) *karpv1.NodeClaim {
	ref := p.NodeClassRef
	claim := &karpv1.NodeClaim{
		TypeMeta: metav1.TypeMeta{APIVersion: karpv1.SchemeGroupVersion.String(), Kind: "NodeClaim"},
		ObjectMeta: metav1.ObjectMeta{
			Name:        ledger.ClaimName(logID, p.NodePool, seq, index),
			Labels:      maps.Clone(p.Labels),
			Annotations: maps.Clone(p.Annotations),
			Finalizers:  []string{karpv1.TerminationFinalizer},
		},
		Spec: karpv1.NodeClaimSpec{
			Taints: slices.Clone(p.Taints), StartupTaints: slices.Clone(p.StartupTaints),
			Requirements: slices.Clone(p.Requirements),
			Resources:    karpv1.ResourceRequirements{Requests: p.Requests.List()},
			NodeClassRef: &ref, ExpireAfter: p.ExpireAfter,
		},
	}
	if claim.Annotations == nil {
		claim.Annotations = map[string]string{}
	}
	claim.Annotations[karpv1.RecordAnnotationKey] = ledger.RecordAnnotation(logID, seq)
	if p.TerminationGracePeriod != nil {
		claim.Spec.TerminationGracePeriod = &metav1.Duration{Duration: *p.TerminationGracePeriod}
	}
	if p.NodePoolUID != "" {
		block := true
		claim.OwnerReferences = []metav1.OwnerReference{{
			APIVersion: karpv1.SchemeGroupVersion.String(), Kind: "NodePool", Name: p.NodePool, UID: p.NodePoolUID,
			BlockOwnerDeletion: &block,
		}}
	}
	return claim
}
