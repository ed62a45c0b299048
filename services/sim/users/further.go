package users

import (
	"encoding/json"
	"math/rand/v2"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	karpv1 "millwright/api/karpenter/v1"
	mwv1alpha1 "millwright/api/millwright/v1alpha1"
	"millwright/events"
)

// further draws the rules of a further DisruptionPolicy from random numbers of its own, so that the histories
// of runs without one stay what they were.
type further struct{ *rand.Rand }

func newFurther(seed uint64) further { return further{rand.New(rand.NewPCG(seed, 0x72756c65))} }

func (f further) happens(perThousand int) bool { return f.IntN(1000) < perThousand }

func (f further) oneOf(texts ...string) string { return texts[f.IntN(len(texts))] }

// banQuiet is the consolidateAfter of NodePools whose nodes a policy bans as destinations: long enough to see
// that it holds although clocks are apart.
const banQuiet = 40 * time.Second

// drawFurther draws a policy about all NodePools, if there is one, and changes these so that its rules come
// to bear.
func (s *Users) drawFurther() {
	f := newFurther(s.Seed)
	if !f.happens(s.Faults.Further) {
		return
	}
	p := &mwv1alpha1.DisruptionPolicy{ObjectMeta: metav1.ObjectMeta{Name: "further"}}
	if f.happens(700) {
		p.Spec.Savings = f.drawSavings()
	}
	if f.happens(400) {
		p.Spec.Destination = mwv1alpha1.DestinationBan
		for _, pool := range s.Script.Pools {
			pool.Spec.Disruption.ConsolidateAfter = karpv1.NewDuration(banQuiet)
		}
	}
	if f.happens(500) {
		p.Spec.Waves = &mwv1alpha1.Waves{Initial: int32(1 + f.IntN(2))}
	}
	if f.happens(500) {
		p.Spec.ReturnToPreferred = f.drawReturn()
		if f.happens(500) {
			heavy := int32(10)
			s.Script.Pools[f.IntN(len(s.Script.Pools))].Spec.Weight = &heavy
		}
	}
	s.further = p
}

// drawSavings draws pay-back, what spot prices must have saved, or both.
func (f further) drawSavings() *mwv1alpha1.Savings {
	switch f.IntN(3) {
	case 0:
		return &mwv1alpha1.Savings{PayBack: f.drawPayBack()}
	case 1:
		return &mwv1alpha1.Savings{Spot: f.drawSpot()}
	}
	return &mwv1alpha1.Savings{PayBack: f.drawPayBack(), Spot: f.drawSpot()}
}

// drawPayBack draws costs of which nodes of the catalogue save some within the horizon, and some not.
func (f further) drawPayBack() *mwv1alpha1.PayBack {
	horizon := time.Duration(10+f.IntN(50)) * time.Minute
	return &mwv1alpha1.PayBack{CostPerEviction: f.oneOf("0.005", "0.02", "0.06"), Horizon: &metav1.Duration{Duration: horizon}}
}

// drawSpot draws savings of which a smaller instance type reaches some, and spot instead of on-demand others.
func (f further) drawSpot() *mwv1alpha1.SpotSavings {
	return &mwv1alpha1.SpotSavings{MinPercent: int32(10 + 15*f.IntN(4)), For: metav1.Duration{Duration: time.Duration(1+f.IntN(8)) * time.Minute}}
}

// drawReturn draws times after which an offering that had run out may be there for long enough within a run.
func (f further) drawReturn() *mwv1alpha1.ReturnToPreferred {
	r := &mwv1alpha1.ReturnToPreferred{AvailableFor: &metav1.Duration{Duration: time.Duration(60+f.IntN(120)) * time.Second}, Nodes: f.oneOf("1", "50%", "100%")}
	if f.happens(300) {
		r.Preferences = []mwv1alpha1.Preference{mwv1alpha1.PreferCapacityType}
	}
	return r
}

// furnishFurther creates the policy that was drawn.
func (s *Users) furnishFurther() {
	if s.further == nil {
		return
	}
	text, err := json.Marshal(s.further.Spec)
	if err != nil {
		panic(err)
	}
	s.Trace("user: makes DisruptionPolicy %s: %s", s.further.Name, text)
	s.Cluster.Apply(events.KindDisruptionPolicy, s.further)
}
