package offer

import (
	"millwright/planner/bitset"
	"millwright/planner/provision/internal/demand"
)

// Ceiling says up to which types a claim grows. It does not limit the types offered to the launch: all that
// hold the pods are offered.
type Ceiling struct {
	Measure Measure
	// Waste: types whose cost is at most this many thousandths above the best; negative: any.
	Waste int64
	// PriceMax: types that cost at most this much; repellingMax: the same for claims opened by a pod that
	// keeps others off its node; 0: any.
	PriceMax, RepellingMax int64
}

// Growth returns the types of a new claim for a pod, in state n with types, that let it take more pods; nil:
// any.
func (g *Ceiling) Growth(c *demand.Class, n *State, types bitset.Set) bitset.Set {
	if g == nil {
		return nil
	}
	priceMax := g.PriceMax
	if c.RepelsPeers && g.RepellingMax > 0 {
		priceMax = g.RepellingMax
	}
	if g.Waste < 0 && priceMax == 0 {
		return nil
	}
	price := n.Tariff().cost
	dear := func(i int32) bool { return priceMax > 0 && price[i] > priceMax }
	r := n.Ranking(g.Measure)
	good := bitset.New(len(price))
	limit := int64(-1)
	for _, i := range r.Order {
		if !types.Has(int(i)) || dear(i) {
			continue
		}
		switch {
		case limit < 0 && g.Waste < 0:
			limit = NoPrice
		case limit < 0:
			limit = r.Cost[i] + r.Cost[i]/1000*g.Waste
		}
		if r.Cost[i] > limit {
			break
		}
		good.Add(int(i))
	}
	if limit < 0 { // its first pod fits no type that cheap: it gets the room of the cheapest type
		for _, i := range n.Tariff().Order {
			if types.Has(int(i)) {
				good.Add(int(i))
				break
			}
		}
	}
	return good
}
