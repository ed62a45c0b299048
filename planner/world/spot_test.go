package world_test

import (
	"testing"
	"time"

	"millwright/events"
	pt "millwright/planner/plannertest"
	"millwright/planner/world"
)

// TestSpotPricesAreRemembered: what they were at each time of the last day, also after a checkpoint.
func TestSpotPricesAreRemembered(t *testing.T) {
	c := pt.New()
	see := func(zone, capacityType string, micro int64) {
		c.See(&events.Prices{Entries: []events.Price{{InstanceType: "m5.large", CapacityType: capacityType, Zone: zone, MicroUSDPerHour: micro}}})
	}
	at := func(zone string, ago time.Duration) int64 {
		return c.World.SpotPriceAt("m5.large", zone, c.Clock.Add(-ago))
	}
	first := c.Clock
	see("a", "spot", 100)
	see("", "spot", 500)
	see("a", "on-demand", 900)
	c.Advance(10 * time.Hour)
	see("a", "spot", 200)
	c.Advance(time.Hour)
	see("a", "spot", 200) // as before: no change
	c.Advance(time.Hour)
	want(t, "before it was seen", at("a", 13*time.Hour), 0)
	want(t, "at first", at("a", 12*time.Hour), 100)
	want(t, "until it changed", at("a", 2*time.Hour+1), 100)
	want(t, "since it changed", at("a", 2*time.Hour), 200)
	want(t, "in a zone without a price of its own", at("b", time.Hour), 500)
	changes := c.World.SpotChanges("m5.large", "a", first)
	if len(changes) != 1 || !changes[0].Equal(first.Add(10*time.Hour)) {
		t.Errorf("changed at %v", changes)
	}
	want(t, "changes since the last", len(c.World.SpotChanges("m5.large", "a", changes[0])), 0)

	restored, err := world.Restore(checkpoint(t, c.World))
	if err != nil {
		t.Fatal(err)
	}
	want(t, "restored, until it changed", restored.SpotPriceAt("m5.large", "a", first), 100)
	want(t, "restored, now", restored.SpotPriceAt("m5.large", "a", c.Clock), 200)

	c.Advance(23 * time.Hour) // 25 h after the change
	see("a", "spot", 300)
	want(t, "more than a day ago", at("a", 30*time.Hour), 0)
	want(t, "a day ago", at("a", world.SpotMemory), 200)
	see("a", "spot", 0)
	see("a", "spot", 400)
	c.Advance(time.Hour)
	want(t, "before it was gone for a time", at("a", 2*time.Hour), 0)
	want(t, "since it is back", at("a", time.Hour), 400)
}

// TestVersionsKeepTheirSpotPrices: what is folded later changes no version, and an offering that changes all
// the time takes little room.
func TestVersionsKeepTheirSpotPrices(t *testing.T) {
	c := pt.New()
	start := c.Clock
	c.See(&events.Prices{Entries: []events.Price{{InstanceType: "x", CapacityType: "spot", Zone: "a", MicroUSDPerHour: 1}}})
	before := c.World.Version()
	for i := range 100 {
		c.Advance(time.Minute)
		c.See(&events.Prices{Entries: []events.Price{{InstanceType: "x", CapacityType: "spot", Zone: "a", MicroUSDPerHour: int64(10 + i)}}})
	}
	want(t, "the version's price", before.SpotPriceAt("x", "a", c.Clock), 1)
	want(t, "changes that are kept", len(c.World.SpotChanges("x", "a", start.Add(-time.Hour))), 64)
	want(t, "what is not kept", c.World.SpotPriceAt("x", "a", start.Add(30*time.Minute)), 0)
}
