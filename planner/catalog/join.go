package catalog

import (
	"slices"

	karpv1 "millwright/api/karpenter/v1"
	"millwright/planner/requirement"
)

// Join returns the List at the given prices, as a catalogue that belongs to no NodeClass yet (see
// Catalog.For). like are catalogues joined with the same prices, with which it may share parts.
func (l *List) Join(prices Prices, like ...*Catalog) *Catalog {
	cat := &Catalog{Types: make([]*InstanceType, len(l.hardware)), offers: l.offers, places: l.places}
	types := make([]InstanceType, len(l.hardware))
	wheres := map[whereKey]*Where{}
	for i, h := range l.hardware {
		types[i] = InstanceType{
			Hardware: h, Requirements: requirement.Layered(h.Requirements, &l.places[i].requirements),
			Offerings: priced(h.Name, l.offers[i], prices, wheres),
		}
		cat.Types[i] = &types[i]
	}
	cat.indexed(like)
	for _, o := range like {
		cat.shareOfferings(o)
	}
	return cat
}

// whereKey distinguishes offerings that are not reserved.
type whereKey struct {
	zone, zoneID, capacityType, group string
	partition                         int32
}

// priced returns a type's offerings with prices; those in the same place share it.
func priced(instanceType string, at *offers, prices Prices, wheres map[whereKey]*Where) []Offering {
	out := make([]Offering, len(at.list))
	for i := range at.list {
		src := &at.list[i]
		if src.CapacityType == karpv1.CapacityTypeReserved {
			out[i] = reservedOffering(instanceType, src, prices)
			continue
		}
		key := whereKey{src.Zone, src.ZoneID, src.CapacityType, src.PlacementGroup, src.Partition}
		if wheres[key] == nil {
			w := &Where{Zone: src.Zone, ZoneID: src.ZoneID, CapacityType: src.CapacityType, PlacementGroup: src.PlacementGroup, Partition: src.Partition}
			w.Requirements = offeringRequirements(w)
			wheres[key] = w
		}
		price := prices.Of(instanceType, src.CapacityType, src.Zone)
		out[i] = Offering{Where: wheres[key], Price: price, Available: src.Available && price > 0}
	}
	sortOfferings(out)
	return out
}

// shareOfferings replaces offerings by the equal ones of o, if shapes have the same numbers in both.
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
