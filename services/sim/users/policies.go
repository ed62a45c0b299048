package users

import (
	"encoding/json"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	karpv1 "millwright/api/karpenter/v1"
	mwv1alpha1 "millwright/api/millwright/v1alpha1"
	"millwright/events"
)

// furnishPolicies creates up to two DisruptionPolicies. The first is about all NodePools, the second about
// one.
func (s *Users) furnishPolicies() {
	for _, name := range []string{"all", "one"} {
		if !s.Happens(s.Faults.Policies) {
			continue
		}
		p := s.drawPolicy(name)
		if name == "one" {
			pool := s.Script.Pools[s.Rng.IntN(len(s.Script.Pools))]
			p.Spec.NodePoolSelector = &metav1.LabelSelector{MatchLabels: pool.Labels}
		}
		text, err := json.Marshal(p.Spec)
		if err != nil {
			panic(err)
		}
		s.Trace("user: makes DisruptionPolicy %s: %s", name, text)
		s.Cluster.Apply(events.KindDisruptionPolicy, p)
	}
}

// drawPolicy draws a policy that holds nothing up for ever but consolidation and drift.
func (s *Users) drawPolicy(name string) *mwv1alpha1.DisruptionPolicy {
	p := &mwv1alpha1.DisruptionPolicy{ObjectMeta: metav1.ObjectMeta{Name: name}}
	spec := &p.Spec
	if s.Happens(400) {
		spec.Savings = s.drawSavings()
	}
	if s.Happens(350) {
		spec.MinNodeAge = &metav1.Duration{Duration: s.Millis(20_000, 120_000).Truncate(time.Second)}
	}
	if s.Happens(350) {
		most := int32(1 + s.Rng.IntN(4))
		spec.MaxEvictionsPerHour = &most
	}
	if s.Happens(350) {
		spec.Windows = []mwv1alpha1.Window{s.drawWindow()}
	}
	if s.Happens(250) {
		spec.Approval = &mwv1alpha1.Approval{Reasons: []karpv1.DisruptionReason{karpv1.DisruptionReasonUnderutilized}, ExpireAfter: &metav1.Duration{Duration: 5 * time.Minute}}
	}
	if s.Happens(250) {
		until := s.Clock.Now().Add(s.Script.Length / 2).Add(s.Millis(0, 30_000)).Truncate(time.Second)
		spec.Pause = &mwv1alpha1.Pause{Until: metav1.NewTime(until), Reason: "simulated"}
	}
	if s.Happens(250) {
		spec.DrainOut = &mwv1alpha1.DrainOut{Nodes: s.OneOf("1", "50%")}
	}
	if s.Happens(500) {
		spec.Surge = &mwv1alpha1.Surge{Within: &metav1.Duration{Duration: s.Millis(10_000, 90_000).Truncate(time.Second)}}
	}
	if s.Happens(200) {
		spec.Destination = mwv1alpha1.DestinationBan
	}
	return p
}

func (s *Users) drawSavings() *mwv1alpha1.Savings {
	x := &mwv1alpha1.Savings{}
	switch s.Rng.IntN(3) {
	case 0:
		percent := int32(20 + 20*s.Rng.IntN(4))
		x.MinPercent = &percent
	case 1:
		least := s.OneOf("0.03", "0.08", "0.2")
		x.MinPerHour = &least
	case 2:
		least := s.OneOf("0.01", "0.03", "0.1")
		x.MinPerEviction = &least
	}
	return x
}

// drawWindow draws a window that allows every other minute, or denies every third: there are minutes that
// two of them leave open.
func (s *Users) drawWindow() mwv1alpha1.Window {
	w := mwv1alpha1.Window{Action: mwv1alpha1.WindowDeny, Schedule: "*/3 * * * *", Duration: metav1.Duration{Duration: time.Minute}}
	if s.Happens(500) {
		w.Action, w.Schedule = mwv1alpha1.WindowAllow, "*/2 * * * *"
	}
	if s.Happens(500) {
		w.Reasons = []karpv1.DisruptionReason{karpv1.DisruptionReasonUnderutilized}
	}
	return w
}
