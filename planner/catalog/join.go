package catalog

import (
	"slices"

	karpv1 "millwright/api/karpenter/v1"
	"millwright/events"
	"millwright/planner/requirement"
)

// Join returns the List at the given prices, as the catalogue of no NodeClass yet (see Catalog.For). like are catalogues joined with
// the same prices that it may share with.
func (l *List) Join(prices Prices, like ...*Catalog) *Catalog {
	cat := &Catalog{Types: make([]*InstanceType, len(l.hardware)), offers: l.offers}
	types := make([]InstanceType, len(l.hardware))
	shapes := map[shapeID]requirement.Set{}
	for i, h := range l.hardware {
		types[i] = InstanceType{Hardware: h, Offerings: priced(h.Name, l.offers[i], prices, shapes)}
		cat.Types[i] = &types[i]
	}
	cat.indexed(like)
	for _, o := range like {
		cat.shareOfferings(o)
	}
	return cat
}

// priced are a type's offerings; of equal shapes the requirements are shared.
func priced(instanceType string, at *offers, prices Prices, shapes map[shapeID]requirement.Set) []Offering {
	out := make([]Offering, len(at.list))
	for i := range at.list {
		out[i] = pricedOffering(instanceType, &at.list[i], prices)
		o := &out[i]
		id := shapeID{o.Zone, o.ZoneID, o.CapacityType, o.ReservationID, o.ReservationType}
		if _, known := shapes[id]; !known {
			shapes[id] = offeringRequirements(o)
		}
		o.Requirements = shapes[id]
	}
	sortOfferings(out)
	return out
}

func pricedOffering(instanceType string, o *events.CatalogOffering, prices Prices) Offering {
	if o.CapacityType == karpv1.CapacityTypeReserved {
		return reservedOffering(instanceType, o, prices)
	}
	price := prices.Of(instanceType, o.CapacityType, o.Zone)
	return Offering{Zone: o.Zone, ZoneID: o.ZoneID, CapacityType: o.CapacityType, Price: price, Available: o.Available && price > 0}
}

// shareOfferings replaces offerings by those of o that were made of the same, if shapes have the same numbers in both.
func (c *Catalog) shareOfferings(o *Catalog) {
	if o.offers == nil || !slices.Equal(c.shapes, o.shapes) {
		return
	}
	at := 0
	for i, t := range c.Types {
		for at < len(o.Types) && o.Types[at].Name < t.Name {
			at++
		}
		if at < len(o.Types) && o.Types[at].Name == t.Name && o.offers[at] == c.offers[i] {
			t.Offerings = o.Types[at].Offerings
		}
	}
}
