package claims

import (
	"testing"

	"millwright/planner/catalog"
	"millwright/planner/ledger"
	"millwright/services/internal/ec2"
)

// An instance whose price nobody knows yet, because the process has just started, costs what its plan
// says, if it is of the offering that was planned.
func TestAnUnknownPriceIsThatOfThePlan(t *testing.T) {
	planned := &ledger.Claim{Planned: &ledger.PlannedClaim{Cheapest: ledger.OfferingPrice{InstanceType: "m5.large", Zone: "a", CapacityType: "spot", MicroUSDPerHour: 38_400}}}
	for about, x := range map[string]struct {
		claim    *ledger.Claim
		instance ec2.Instance
		want     int64
	}{
		"the offering that was planned": {planned, ec2.Instance{InstanceType: "m5.large", Zone: "a", CapacityType: "spot"}, 38_400},
		"another zone":                  {planned, ec2.Instance{InstanceType: "m5.large", Zone: "b", CapacityType: "spot"}, 0},
		"another type":                  {planned, ec2.Instance{InstanceType: "c5.large", Zone: "a", CapacityType: "spot"}, 0},
		"a reservation":                 {planned, ec2.Instance{InstanceType: "m5.large", Zone: "a", CapacityType: "spot", ReservationID: "cr-1"}, 0},
		"a claim that was not planned":  {&ledger.Claim{}, ec2.Instance{InstanceType: "m5.large"}, 0},
		"no claim":                      {nil, ec2.Instance{InstanceType: "m5.large"}, 0},
	} {
		if got := plannedPrice(x.claim, x.instance); got != x.want {
			t.Errorf("%s: %d, want %d", about, got, x.want)
		}
	}
}

// What a spot instance would cost on demand is the price of its own type in its own zone, or not known.
func TestTheOnDemandPriceOfASpotInstance(t *testing.T) {
	offer := func(zone, capacityType string, price int64) catalog.Offering {
		return catalog.Offering{Where: &catalog.Where{Zone: zone, CapacityType: capacityType}, Price: price}
	}
	large := &catalog.InstanceType{Offerings: []catalog.Offering{
		offer("a", "spot", 30_000), offer("b", "on-demand", 99_000), offer("a", "reserved", 1), offer("a", "on-demand", 96_000), offer("c", "on-demand", 0)}}
	for about, x := range map[string]struct {
		of       *catalog.InstanceType
		instance ec2.Instance
		want     int64
	}{
		"spot":                              {large, ec2.Instance{Zone: "a", CapacityType: "spot"}, 96_000},
		"on demand itself":                  {large, ec2.Instance{Zone: "a", CapacityType: "on-demand"}, 0},
		"a zone whose price is not known":   {large, ec2.Instance{Zone: "c", CapacityType: "spot"}, 0},
		"a zone without the type on demand": {large, ec2.Instance{Zone: "d", CapacityType: "spot"}, 0},
		"a type that nobody knows":          {nil, ec2.Instance{Zone: "a", CapacityType: "spot"}, 0},
	} {
		if got := onDemandPrice(x.of, x.instance); got != x.want {
			t.Errorf("%s: %d, want %d", about, got, x.want)
		}
	}
}
