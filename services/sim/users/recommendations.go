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

// recommendations to leave spot instances, and the policy about them; nil: there is none. They draw from
// random numbers of their own.
type recommendations struct {
	*rand.Rand
	policy *mwv1alpha1.DisruptionPolicy
}

// drawRecommendations draws what follows from recommendations, by the option and by a policy about all
// NodePools or one.
func (s *Users) drawRecommendations() {
	if s.Faults.Recommended == 0 {
		return
	}
	r := &recommendations{Rand: s.Own(0x726562616c616e63)}
	if r.IntN(2) == 0 {
		s.Options.Rebalance = planner.RebalanceReplace
	}
	if r.IntN(2) == 0 {
		r.policy = &mwv1alpha1.DisruptionPolicy{ObjectMeta: metav1.ObjectMeta{Name: "rebalancing"}}
		r.policy.Spec.RebalanceRecommendation = mwv1alpha1.RebalanceReplace
		if r.IntN(2) == 0 {
			r.policy.Spec.RebalanceRecommendation = mwv1alpha1.RebalanceIgnore
		}
		if r.IntN(2) == 0 {
			r.policy.Spec.NodePoolSelector = &metav1.LabelSelector{MatchLabels: s.Script.Pools[r.IntN(len(s.Script.Pools))].Labels}
		}
	}
	s.recommendations = r
}

// furnishRecommendations creates the policy that was drawn.
func (s *Users) furnishRecommendations() {
	if s.recommendations == nil || s.recommendations.policy == nil {
		return
	}
	p := s.recommendations.policy
	text, err := json.Marshal(p.Spec)
	if err != nil {
		panic(err)
	}
	s.Trace("user: makes DisruptionPolicy %s: %s", p.Name, text)
	s.Cluster.Apply(events.KindDisruptionPolicy, p)
}

// RecommendNowAndThen has EC2 recommend to leave a spot instance, or somebody forge that about another. It is
// called once a second of the script.
func (s *Users) RecommendNowAndThen() {
	r := s.recommendations
	if r == nil || r.IntN(1000) >= s.Faults.Recommended {
		return
	}
	if r.IntN(4) > 0 {
		s.Recommend()
	} else if i := s.anyInstance(func(i *cloud.Instance) bool { return i.CapacityType != karpv1.CapacityTypeSpot }); i != nil {
		s.Trace("somebody: recommends to leave %s", i.ID)
		s.notify(events.RebalanceRecommendation, i.ID)
	}
}

// Recommend has EC2 recommend to leave a spot instance, if there is one; it reports whether.
func (s *Users) Recommend() bool {
	if s.recommendations == nil {
		return false
	}
	i := s.anyInstance(func(i *cloud.Instance) bool { return i.CapacityType == karpv1.CapacityTypeSpot })
	if i == nil {
		return false
	}
	s.Trace("aws: recommends to leave %s", i.ID)
	if s.Deeds.Recommended[i.ID].IsZero() {
		s.Deeds.Recommended[i.ID] = s.Clock.Now()
	}
	s.notify(events.RebalanceRecommendation, i.ID)
	return true
}

// anyInstance returns one that runs and that is wanted; nil if there is none.
func (s *Users) anyInstance(wanted func(*cloud.Instance) bool) *cloud.Instance {
	var list []*cloud.Instance
	for _, i := range s.Cloud.Instances() {
		if !i.Ending() && wanted(i) {
			list = append(list, i)
		}
	}
	if len(list) == 0 {
		return nil
	}
	return list[s.recommendations.IntN(len(list))]
}
