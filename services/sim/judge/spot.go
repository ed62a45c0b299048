package judge

import (
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"

	karpv1 "millwright/api/karpenter/v1"
	mwv1alpha1 "millwright/api/millwright/v1alpha1"
	"millwright/events"
	"millwright/planner/ledger"
	"millwright/services/sim/cloud"
	"millwright/services/sim/stage"
)

// CheckSpot is of commands by savings.spot of the DisruptionPolicies.
const CheckSpot = "4: DisruptionPolicies: what rests on spot prices has been better for a time"

// spotPrices are what a stream has said of spot offerings, in the order of its messages.
type spotPrices map[cloud.Offering][]spotPrice

// spotPrice in micro-dollars an hour, from a time on.
type spotPrice struct {
	at    time.Time
	price int64
}

func (x spotPrices) enter(prices *events.Prices, at time.Time) {
	for _, e := range prices.Entries {
		if e.CapacityType == karpv1.CapacityTypeSpot {
			o := cloud.Offering{InstanceType: e.InstanceType, Zone: e.Zone, CapacityType: e.CapacityType}
			x[o] = append(x[o], spotPrice{at, e.MicroUSDPerHour})
		}
	}
}

// at is what an offering cost at a time; false if that is not known.
func (x spotPrices) at(o cloud.Offering, t time.Time) (price int64, known bool) {
	for _, p := range x[o] {
		if !p.at.After(t) {
			price, known = p.price, p.price > 0
		}
	}
	return price, known
}

// spotSavings judges replacements where a node that goes, or one that comes, is a spot instance.
type spotSavings struct{ *Judge }

// judge demands that the command would have saved enough at the spot prices of all of the time that a policy
// asks for. On-demand prices count as they are now. What moves room of CapacityBuffers alone evicts nobody,
// and no savings are asked of it.
func (s *spotSavings) judge(v *seen, policy *mwv1alpha1.DisruptionPolicy, c *ledger.CommandStarted) {
	rule := policy.Spec.Savings.Spot
	if rule == nil || len(c.Replacements) == 0 || c.Evictions == 0 {
		return
	}
	var going, coming []cloud.Offering
	for i := range c.Candidates {
		n, _ := v.objects[events.KindNode][c.Candidates[i].Node].(*corev1.Node)
		if n == nil {
			return
		}
		going = append(going, cloud.Offering{InstanceType: n.Labels[corev1.LabelInstanceTypeStable], Zone: n.Labels[corev1.LabelTopologyZone], CapacityType: n.Labels[karpv1.CapacityTypeLabelKey]})
	}
	for i := range c.Replacements {
		x := &c.Replacements[i].Cheapest
		coming = append(coming, cloud.Offering{InstanceType: x.InstanceType, Zone: x.Zone, CapacityType: x.CapacityType})
	}
	from := s.Clock.Now().Add(stage.ClocksApart - rule.For.Duration)
	moments, rests := []time.Time{from}, false
	for _, o := range slices.Concat(going, coming) {
		rests = rests || o.CapacityType == karpv1.CapacityTypeSpot
		for _, p := range v.spot[o] {
			if p.at.After(from) {
				moments = append(moments, p.at)
			}
		}
	}
	for _, t := range moments {
		before, known := v.costAt(going, t)
		after, also := v.costAt(coming, t)
		switch {
		case !rests:
			return
		case !known || !also:
			s.Violate(CheckSpot, "%v go for %v, whose prices were not known %s ago; %s wants them for %s", going, coming, s.Clock.Now().Sub(t), policy.Name, rule.For.Duration)
		case (before-after)*100 < before*int64(rule.MinPercent):
			s.Violate(CheckSpot, "%v go for %v, which saved %d of %d micro-dollars an hour %s ago; %s wants %d %% for %s", going, coming, before-after, before,
				s.Clock.Now().Sub(t), policy.Name, rule.MinPercent, rule.For.Duration)
		}
	}
}

// costAt is what offerings cost together, spot ones at a time and the others now; false if that is not known.
// Reserved capacity is paid for already.
func (v *seen) costAt(offerings []cloud.Offering, t time.Time) (sum int64, known bool) {
	for _, o := range offerings {
		if o.CapacityType == karpv1.CapacityTypeReserved {
			continue
		}
		price, known := v.priceOf(o.InstanceType, o.Zone, o.CapacityType)
		if o.CapacityType == karpv1.CapacityTypeSpot {
			price, known = v.spot.at(o, t)
		}
		if !known {
			return 0, false
		}
		sum += price
	}
	return sum, true
}
