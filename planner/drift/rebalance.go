package drift

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"

	karpv1 "millwright/api/karpenter/v1"
	mwv1alpha1 "millwright/api/millwright/v1alpha1"
)

// FollowsRebalance reports that nodes of a NodePool are to be replaced when EC2 recommends to leave their
// instances: as the DisruptionPolicies that select it say, of which one that says Ignore is enough, or as
// the option does if none says anything. A policy whose selector cannot be read says nothing here; it
// keeps everything (disruption §5).
func FollowsRebalance(policies []*mwv1alpha1.DisruptionPolicy, pool *karpv1.NodePool, option bool) bool {
	follows := option
	for _, p := range policies {
		said := p.Spec.RebalanceRecommendation
		if said == "" || !selectsPool(p, pool) {
			continue
		}
		if said != mwv1alpha1.RebalanceReplace {
			return false
		}
		follows = true
	}
	return follows
}

func selectsPool(p *mwv1alpha1.DisruptionPolicy, pool *karpv1.NodePool) bool {
	if p.Spec.NodePoolSelector == nil {
		return true
	}
	selector, err := metav1.LabelSelectorAsSelector(p.Spec.NodePoolSelector)
	return err == nil && selector.Matches(labels.Set(pool.Labels))
}
