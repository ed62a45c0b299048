package catalogue

import (
	"testing"
	"time"
)

func TestOfferings(t *testing.T) {
	oregon, virginia := NewRegion("us-west-2", ""), NewRegion("us-east-1", "")
	cases := map[string]struct {
		region *Region
		typ    string
		zone   string
		want   bool
	}{
		"current types are in every zone of Oregon": {oregon, "m7i.large", "us-west-2d", true},
		"g5 is not in zone d":                       {oregon, "g5.xlarge", "us-west-2d", false},
		"a1 is in a":                                {oregon, "a1.large", "us-west-2a", true},
		"a1 is not in b":                            {oregon, "a1.large", "us-west-2b", false},
		"p3 is nowhere in Oregon":                   {oregon, "p3.2xlarge", "us-west-2a", false},
		"zone e of Virginia has old types":          {virginia, "m4.large", "us-east-1e", true},
		"zone e of Virginia lacks current types":    {virginia, "m7i.large", "us-east-1e", false},
		"zone f lacks r5b":                          {virginia, "r5b.large", "us-east-1f", false},
		"a zone of another region offers nothing":   {oregon, "m7i.large", "us-east-1a", false},
	}
	for sentence, c := range cases {
		t.Run(sentence, func(t *testing.T) {
			if got := c.region.Offers(Lookup(c.typ), c.zone); got != c.want {
				t.Errorf("Offers(%s, %s) = %v", c.typ, c.zone, got)
			}
		})
	}
	if n := len(oregon.Types()); n < 1000 {
		t.Errorf("Oregon offers %d types, want at least 1000", n)
	}
}

func TestZonesCanBeNarrowed(t *testing.T) {
	r := NewRegion("us-west-2", "ac")
	if len(r.Zones) != 2 || r.Zones[1] != (Zone{"us-west-2c", "usw2-az3"}) {
		t.Errorf("zones %v", r.Zones)
	}
	if r := NewRegion("eu-central-1", ""); len(r.Zones) != 3 || r.Zones[0].ID != "euc1-az1" {
		t.Errorf("zones of a region without a table: %v", r.Zones)
	}
}

func TestSpotPricesAreAFunctionOfSeedAndTime(t *testing.T) {
	region := NewRegion("us-west-2", "")
	a, b, other := Spot{region, 1}, Spot{region, 1}, Spot{region, 2}
	at := time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)
	var differ, spikes, pools int
	for _, it := range region.Types() {
		if it.PriceMicroUSD == 0 {
			continue
		}
		for _, z := range region.Zones {
			p := a.Price(it, z.Name, at)
			if p != b.Price(it, z.Name, at.Add(59*time.Minute)) {
				t.Fatalf("%s in %s: price changed within the hour or between equal seeds", it.Name, z.Name)
			}
			if p != other.Price(it, z.Name, at) {
				differ++
			}
			if p <= 0 || p > region.OnDemand(it)*11/10 {
				t.Fatalf("%s in %s: spot %d against on-demand %d", it.Name, z.Name, p, region.OnDemand(it))
			}
			if p > region.OnDemand(it)*85/100 {
				spikes++
			}
			pools++
		}
	}
	if differ < pools*9/10 {
		t.Errorf("only %d of %d pools differ between seeds", differ, pools)
	}
	if spikes == 0 || spikes > pools/20 {
		t.Errorf("%d of %d pools spike", spikes, pools)
	}
}

func TestSpotPricesWalkSlowly(t *testing.T) {
	s := Spot{NewRegion("us-west-2", ""), 7}
	it := Lookup("m7i.large")
	start := time.Date(2026, 3, 1, 0, 0, 0, 0, time.UTC)
	jumps, last := 0, s.Price(it, "us-west-2a", start)
	for h := 1; h < 24*30; h++ {
		p := s.Price(it, "us-west-2a", start.Add(time.Duration(h)*time.Hour))
		if step := p - last; step > it.PriceMicroUSD/20 || -step > it.PriceMicroUSD/20 {
			jumps++
		}
		last = p
	}
	if jumps > 10 {
		t.Errorf("%d jumps of more than 5 %% in a month", jumps)
	}
}
