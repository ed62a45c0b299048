package world

import (
	"slices"
	"time"

	karpv1 "millwright/api/karpenter/v1"
	"millwright/planner/catalog"
)

// SpotMemory is for how long it is kept what spot offerings cost before: the longest time that a
// DisruptionPolicy may ask for.
const SpotMemory = 24 * time.Hour

// spotStepsMax bounds what is kept of one offering; of one that changes more often less is known.
const spotStepsMax = 64

// spotStep is a price in micro USD per hour and the time, in Unix nanoseconds, from which on it was seen.
type spotStep struct {
	since, price int64
}

// remember notes the price of an offering from a time on. Lists are never changed, for versions share them.
func (t *priceTable) remember(key catalog.PriceKey, price int64, at time.Time) {
	if key.CapacityType != karpv1.CapacityTypeSpot {
		return
	}
	past := t.spot[key]
	if len(past) > 0 && past[len(past)-1].price == price {
		return
	}
	first := max(0, len(past)-spotStepsMax+1)
	for first+1 < len(past) && past[first+1].since <= unixNano(at.Add(-SpotMemory)) {
		first++
	}
	t.spot[key] = append(slices.Clone(past[first:]), spotStep{unixNano(at), price})
}

// spotSteps are what is known of a spot offering: the zone's own price, else the one for every zone.
func (a *aws) spotSteps(instanceType, zone string) []spotStep {
	key := catalog.PriceKey{InstanceType: instanceType, CapacityType: karpv1.CapacityTypeSpot, Zone: zone}
	if _, ok := a.prices.prices[key]; !ok {
		key.Zone = ""
	}
	return a.prices.spot[key]
}

// SpotPriceAt is what a spot offering cost at a time, in micro USD per hour: 0 if it is not known. What is
// older than SpotMemory is forgotten.
func (a *aws) SpotPriceAt(instanceType, zone string, t time.Time) (price int64) {
	for _, step := range a.spotSteps(instanceType, zone) {
		if step.since <= unixNano(t) {
			price = step.price
		}
	}
	return price
}

// SpotChanges are the times after one at which a spot offering's price was seen to change, or was seen first,
// in their order.
func (a *aws) SpotChanges(instanceType, zone string, after time.Time) (list []time.Time) {
	for _, step := range a.spotSteps(instanceType, zone) {
		if step.since > unixNano(after) {
			list = append(list, time.Unix(0, step.since).UTC())
		}
	}
	return list
}
