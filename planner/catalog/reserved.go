package catalog

import (
	"math"

	karpv1 "millwright/api/karpenter/v1"
	"millwright/events"
)

// Unlimited is the Free of a reservation whose instances are not counted.
const Unlimited = math.MaxInt64

// PicoPerMicro converts micro to pico USD; reserved capacity costs a ten-millionth of the on-demand price.
const (
	PicoPerMicro  = 1_000_000
	reservedShare = 10_000_000
)

// reservedOffering reads an offering of reserved capacity. It is available while instances are free, whether
// its price is known or not.
func reservedOffering(instanceType string, o *events.CatalogOffering, prices Prices) Offering {
	out := Offering{Where: &Where{Zone: o.Zone, ZoneID: o.ZoneID, CapacityType: o.CapacityType, Free: Unlimited, PlacementGroup: o.PlacementGroup, Partition: o.Partition}, Available: o.Available}
	out.Reservation = "/" + instanceType + "/" + o.Zone
	if r := o.Reservation; r != nil {
		out.ReservationID, out.ReservationType, out.Interruptible, out.Rank = r.ID, r.Type, r.Interruptible, r.PicoUSDPerHour
		if r.ID != "" {
			out.Reservation = r.ID
		}
		if r.Free != nil {
			out.Free = *r.Free
			out.Available = o.Available && out.Free > 0
		}
	}
	if out.Rank == 0 {
		out.Rank = prices.Of(instanceType, karpv1.CapacityTypeOnDemand, o.Zone) * PicoPerMicro / reservedShare
	}
	out.Price = (out.Rank + PicoPerMicro/2) / PicoPerMicro
	out.Requirements = offeringRequirements(out.Where)
	return out
}

// Reservations returns the number of free instances of each reservation that an available offering stands
// for; if several offerings share one, the least counts (reference: scheduling §7.6). nil if there are none.
func (c *Catalog) Reservations() map[string]int64 {
	var free map[string]int64
	for _, t := range c.Types {
		for i := range t.Offerings {
			o := &t.Offerings[i]
			if o.Reservation == "" || !o.Available {
				continue
			}
			if free == nil {
				free = map[string]int64{}
			}
			if n, known := free[o.Reservation]; !known || o.Free < n {
				free[o.Reservation] = o.Free
			}
		}
	}
	return free
}
