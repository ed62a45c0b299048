package users

import (
	"encoding/json"
	"math/rand/v2"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	karpv1 "millwright/api/karpenter/v1"
	mwv1alpha1 "millwright/api/millwright/v1alpha1"
	"millwright/events"
	"millwright/planner"
	"millwright/services/sim/cloud"
)

// Recommendations to leave spot instances, and the policy about them; nil: there is none. They draw from
// random numbers of their own.
type Recommendations struct {
	*Users
	rng    *rand.Rand
	policy *mwv1alpha1.DisruptionPolicy
}

// drawRecommendations draws what follows from recommendations, by the option and by a policy about all
// NodePools or one.
func (s *Users) drawRecommendations() {
	if s.Faults.Recommended == 0 {
		return
	}
	r := &Recommendations{Users: s, rng: s.Own(0x726562616c616e63)}
	if r.rng.IntN(2) == 0 {
		s.Options.Rebalance = planner.RebalanceReplace
	}
	if r.rng.IntN(2) == 0 {
		r.policy = &mwv1alpha1.DisruptionPolicy{ObjectMeta: metav1.ObjectMeta{Name: "rebalancing"}}
		r.policy.Spec.RebalanceRecommendation = mwv1alpha1.RebalanceReplace
		if r.rng.IntN(2) == 0 {
			r.policy.Spec.RebalanceRecommendation = mwv1alpha1.RebalanceIgnore
		}
		if r.rng.IntN(2) == 0 {
			r.policy.Spec.NodePoolSelector = &metav1.LabelSelector{MatchLabels: s.Script.Pools[r.rng.IntN(len(s.Script.Pools))].Labels}
		}
	}
	s.Recommendations = r
}

// furnish creates the policy that was drawn.
func (r *Recommendations) furnish() {
	if r == nil || r.policy == nil {
		return
	}
	p := r.policy
	text, err := json.Marshal(p.Spec)
	if err != nil {
		panic(err)
	}
	r.Trace("user: makes DisruptionPolicy %s: %s", p.Name, text)
	r.Cluster.Apply(events.KindDisruptionPolicy, p)
}

// NowAndThen has EC2 recommend to leave a spot instance, or somebody forge that about another. It is
// called once a second of the script.
func (r *Recommendations) NowAndThen() {
	if r == nil || r.rng.IntN(1000) >= r.Faults.Recommended {
		return
	}
	if r.rng.IntN(4) > 0 {
		r.Make()
	} else if i := r.anyInstance(func(i *cloud.Instance) bool { return i.CapacityType != karpv1.CapacityTypeSpot }); i != nil {
		r.Trace("somebody: recommends to leave %s", i.ID)
		r.notify(events.RebalanceRecommendation, i.ID)
	}
}

// Make has EC2 recommend to leave a spot instance, if there is one; it reports whether.
func (r *Recommendations) Make() bool {
	if r == nil {
		return false
	}
	i := r.anyInstance(func(i *cloud.Instance) bool { return i.CapacityType == karpv1.CapacityTypeSpot })
	if i == nil {
		return false
	}
	r.Trace("aws: recommends to leave %s", i.ID)
	if r.Deeds.Recommended[i.ID].IsZero() {
		r.Deeds.Recommended[i.ID] = r.Clock.Now()
	}
	r.notify(events.RebalanceRecommendation, i.ID)
	return true
}

// anyInstance returns one that runs and that is wanted; nil if there is none.
func (r *Recommendations) anyInstance(wanted func(*cloud.Instance) bool) *cloud.Instance {
	var list []*cloud.Instance
	for _, i := range r.Cloud.Instances() {
		if !i.Ending() && wanted(i) {
			list = append(list, i)
		}
	}
	if len(list) == 0 {
		return nil
	}
	return list[r.rng.IntN(len(list))]
}
