package drift_test

import (
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	karpv1 "millwright/api/karpenter/v1"
	mwv1alpha1 "millwright/api/millwright/v1alpha1"
	"millwright/planner/drift"
)

// What EC2 recommends is followed by flag and by DisruptionPolicy (disruption §8).
func TestRecommendationsAreFollowedByFlagAndByPolicy(t *testing.T) {
	policy := func(said mwv1alpha1.RebalanceRecommendation, of ...string) *mwv1alpha1.DisruptionPolicy {
		p := &mwv1alpha1.DisruptionPolicy{Spec: mwv1alpha1.DisruptionPolicySpec{RebalanceRecommendation: said}}
		if len(of) > 0 {
			p.Spec.NodePoolSelector = &metav1.LabelSelector{MatchLabels: map[string]string{"team": of[0]}}
		}
		return p
	}
	const replace, ignore = mwv1alpha1.RebalanceReplace, mwv1alpha1.RebalanceIgnore
	broken := policy(replace)
	broken.Spec.NodePoolSelector = &metav1.LabelSelector{MatchExpressions: []metav1.LabelSelectorRequirement{{Key: "team", Operator: "odd"}}}
	for name, c := range map[string]struct {
		policies []*mwv1alpha1.DisruptionPolicy
		option   bool
		want     bool
	}{
		"by the flag":                          {nil, true, true},
		"not by the flag":                      {nil, false, false},
		"a policy against the flag":            {[]*mwv1alpha1.DisruptionPolicy{policy(ignore)}, true, false},
		"a policy for it":                      {[]*mwv1alpha1.DisruptionPolicy{policy(""), policy(replace, "blue")}, false, true},
		"a policy for another pool":            {[]*mwv1alpha1.DisruptionPolicy{policy(replace, "red")}, false, false},
		"two that differ: one that ignores":    {[]*mwv1alpha1.DisruptionPolicy{policy(ignore, "blue"), policy(replace)}, true, false},
		"two that differ, in the other order":  {[]*mwv1alpha1.DisruptionPolicy{policy(replace), policy(ignore, "blue")}, false, false},
		"a policy with an unreadable selector": {[]*mwv1alpha1.DisruptionPolicy{broken}, false, false},
	} {
		pool := &karpv1.NodePool{ObjectMeta: metav1.ObjectMeta{Labels: map[string]string{"team": "blue"}}}
		if got := drift.FollowsRebalance(c.policies, pool, c.option); got != c.want {
			t.Errorf("%s: %t", name, got)
		}
	}
}
