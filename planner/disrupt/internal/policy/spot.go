package policy

import (
	"fmt"
	"slices"
	"time"

	karpv1 "millwright/api/karpenter/v1"
	"millwright/planner/world"
)

// Priced is a node that goes or comes: its offering, and what it costs now in micro USD per hour.
type Priced struct {
	InstanceType, Zone, CapacityType string
	Price                            int64
}

// SpotShortfall says that a replacement whose saving rests on spot prices was not better by the policy's
// savings.spot for all of its time; "" if it was, or if the rule does not apply. until is when it may be, by
// time alone; zero if it does not save enough now, or if a price that is not known keeps it.
//
// Example. minPercent 10, for 30m: a spot node of 0.05 USD is to be replaced by one of 0.04. It may be, once
// for 30 minutes no moment was seen at which the one cost less than 10 % less than the other.
func (p *Policy) SpotShortfall(w *world.World, now time.Time, before, after []Priced) (text string, until time.Time) {
	rule := &p.savings
	all := slices.Concat(before, after)
	if rule.spotPercent == 0 || len(after) == 0 || !slices.ContainsFunc(all, Priced.spot) {
		return "", time.Time{}
	}
	from := now.Add(-rule.spotFor)
	moments := []time.Time{from}
	for _, x := range all {
		if x.spot() {
			moments = append(moments, w.SpotChanges(x.InstanceType, x.Zone, from)...)
		}
	}
	slices.SortFunc(moments, time.Time.Compare)
	for i, t := range moments {
		old, known := sumAt(w, before, t)
		new, also := sumAt(w, after, t)
		switch {
		case !known || !also:
			text = fmt.Sprintf("DisruptionPolicy %q: spot prices are not known since %s, savings.spot.for is %s", p.Name, Clock(from), rule.spotFor)
		case mul(old-new, 100).Cmp(mul(old, rule.spotPercent)) < 0:
			text = fmt.Sprintf("DisruptionPolicy %q: saved %s of %s USD per hour at the spot prices of %s, savings.spot.minPercent is %d for %s",
				p.Name, USD(old-new), USD(old), Clock(t), rule.spotPercent, rule.spotFor)
		default:
			continue
		}
		if until = (time.Time{}); i+1 < len(moments) {
			until = moments[i+1].Add(rule.spotFor)
		}
	}
	return text, until
}

func (x Priced) spot() bool { return x.CapacityType == karpv1.CapacityTypeSpot }

// sumAt is what offerings cost together at a time; false if it is not known of a spot one. Those whose price
// an overlay changes have changed in proportion.
func sumAt(w *world.World, list []Priced, t time.Time) (sum int64, ok bool) {
	for _, x := range list {
		price := x.Price
		if x.spot() {
			past, now := w.SpotPriceAt(x.InstanceType, x.Zone, t), w.Price(x.InstanceType, x.CapacityType, x.Zone)
			if past <= 0 || now <= 0 {
				return 0, false
			}
			price = Proportion(x.Price, past, now)
		}
		sum += price
	}
	return sum, true
}
