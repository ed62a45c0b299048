package ec2

import (
	"os"
	"runtime"
	"strings"
	"testing"

	"millwright/tools/ec2sim/simclient"
)

// Vectors out of instances.json of ec2instances.info, 2025-05-28: on-demand prices of Linux.
func TestBuiltInPricesOfRegions(t *testing.T) {
	for at, want := range map[string]int64{
		"sa-east-1 m5.large": 153000, "eu-west-1 t4g.nano": 4600, "us-west-2 p5.48xlarge": 98320000, "eu-central-1 c5.metal": 4656000,
		"ap-northeast-1 c7i.metal-24xl": 5392800, "us-gov-west-1 m6i.32xlarge": 7744000, "us-east-1 u7in-32tb.224xlarge": 360986950,
		"eu-west-1 hpc7a.96xlarge": 7725200, "us-west-2-wl1-las1 r5.2xlarge": 680000, "us-west-2-lax-1 t3.medium": 49900,
		// those of us-east-1 are of another source, and newer
		"us-east-1 m5.large": 96000, "us-east-1 c5.metal": 4080000, "us-east-1 p5.48xlarge": 55040000,
	} {
		region, name, _ := strings.Cut(at, " ")
		b := pricesFor(region)
		if date := map[bool]string{true: "mid-2026", false: "2025-05-28"}[region == FallbackRegion]; b.Prices[name] != want || b.Region != region || b.Date != date {
			t.Errorf("%s costs %d %s, want %d of %s", at, b.Prices[name], b.source(), want, date)
		}
	}
}

// What only the newest table has is estimated for the other regions, and said to be; a region without a table
// has the prices of us-east-1, and no estimates.
func TestTypesThatATableLacksAreEstimated(t *testing.T) {
	b := pricesFor("sa-east-1")
	own, _ := regionTable(priceTables, "sa-east-1")
	base := pricesFor(FallbackRegion)
	if base.estimated != 0 || b.estimated == 0 || len(own.Prices)+b.estimated != len(b.Prices) || own.Prices["c8i.large"] != 0 {
		t.Fatalf("%d estimates for us-east-1, %d for sa-east-1 of %d types", base.estimated, b.estimated, len(b.Prices))
	}
	if price, of := b.Prices["c8i.large"], base.Prices["c8i.large"]; of == 0 || price < of*155/100 || price > of*165/100 {
		t.Errorf("c8i.large costs %d in sa-east-1, and %d in us-east-1: types there cost 1.59 times as much", price, of)
	}
	if want := "of sa-east-1, 2025-05-28; "; !strings.HasPrefix(b.source(), want) || !strings.HasSuffix(b.source(), "estimated at 1.59 times their price in us-east-1, mid-2026") {
		t.Errorf("the source is %q", b.source())
	}
	for _, region := range []string{"cn-north-1", "mars-north-1"} {
		if b := pricesFor(region); b.source() != "of us-east-1, mid-2026" || b.Prices["m5.large"] != 96000 {
			t.Errorf("%s has prices %s", region, b.source())
		}
	}
}

// All tables are read, and none has a price that another table's would make unlikely.
func TestPricesOfAllRegionsAreOfOneMagnitude(t *testing.T) {
	tables, err := ParsePriceTables(priceTables)
	if err != nil || len(tables) < 90 || len(priceTables) > 400_000 {
		t.Fatalf("%d tables in %d bytes, %v", len(tables), len(priceTables), err)
	}
	base := pricesFor(FallbackRegion).Prices
	for _, table := range tables {
		ratio := medianRatio(table.Prices, base)
		if ratio < 950_000 || ratio > 2_000_000 {
			t.Errorf("%s costs %d millionths of us-east-1", table.Region, ratio)
		}
		for name, price := range table.Prices {
			if of := base[name] * ratio / 1_000_000; of > 0 && (price < of/2 || price > of*9/4) /* as p5 in ap-south-1 before it became cheaper */ {
				t.Errorf("%s: %s costs %d, by the other types %d", table.Region, name, price, of)
			}
		}
	}
}

// A table is read when it is needed, and its region alone.
func TestOneRegionIsReadOutOfTheTables(t *testing.T) {
	text := "# a head\nregion a-1 2025-01-01\nm5 large:1\nregion a-1-x-1 2025-01-02\nm5 large:2\nregion b 2025-01-03\nm5 broken\n"
	for region, want := range map[string]int64{"a-1": 1, "a-1-x-1": 2} {
		if got, ok := regionTable(text, region); !ok || len(got.Prices) != 1 || got.Prices["m5.large"] != want {
			t.Errorf("%s: %v, %v", region, got, ok)
		}
	}
	if got, ok := regionTable(text, "a"); ok {
		t.Errorf("a: %v", got)
	}
	var before, after runtime.MemStats
	runtime.GC()
	runtime.GC() // the first one leaves what is pooled
	runtime.ReadMemStats(&before)
	b := pricesFor("eu-west-1")
	runtime.GC()
	runtime.ReadMemStats(&after)
	t.Logf("%d prices take %d bytes of heap; %d were allocated", len(b.Prices), int64(after.HeapAlloc)-int64(before.HeapAlloc), after.TotalAlloc-before.TotalAlloc)
	runtime.KeepAlive(b)
	if n := after.TotalAlloc - before.TotalAlloc; n > 2<<20 {
		t.Errorf("%d bytes were allocated for one region", n)
	}
}

func TestTablesOfZones(t *testing.T) {
	for zone, want := range map[string]string{
		"us-west-2-lax-1a": "us-west-2-lax-1", "us-west-2-lax-1b": "us-west-2-lax-1", "us-east-1-chi-2a": "us-east-1-chi-1", "us-west-2-wl1-las-wlz-1": "us-west-2-wl1-las1",
		"eu-west-2-wl1-man-wlz-1": "eu-west-2-wl1-man1", "eu-west-2-wl2-man-wlz-1": "eu-west-2-wl2-man1",
		"us-west-2a": "", "us-gov-west-1a": "", "us-west-2-xxx-1a": "", "us-west-2-wl1-xxx-wlz-1": "", "": "",
	} {
		if got := tableOfZone(priceTables, zone); got != want {
			t.Errorf("%q: %q, want %q", zone, got, want)
		}
	}
}

// The license of the source goes with what was taken from it.
func TestTheSourceOfThePricesIsNamed(t *testing.T) {
	license, err := os.ReadFile("tables/LICENSE-ec2instances.txt")
	if err != nil || !strings.Contains(string(license), "Copyright (c) 2013 Garret Heaton") || !strings.Contains(priceTables[:strings.Index(priceTables, "\nregion ")], "LICENSE-ec2instances.txt") {
		t.Errorf("%v\n%s", err, license)
	}
}

// In a local zone a type costs on demand what it does there, whether or not the price API answers for the
// region, and whichever is polled first; elsewhere the region's price holds.
func TestPricesInLocalZones(t *testing.T) {
	const local = "us-west-2-lax-1a"
	for name, polls := range map[string][]string{
		"types first":       {"instance_types", "on_demand_prices", "spot_prices"},
		"prices first":      {"on_demand_prices", "spot_prices", "instance_types"},
		"spot prices first": {"spot_prices", "instance_types", "on_demand_prices"},
	} {
		t.Run(name, func(t *testing.T) {
			r := newEdgeRig(t)
			got := map[priceKey]int64{}
			for _, poll := range polls {
				r.poll(poll)
				for key, price := range r.out.prices() {
					got[key] = price
				}
			}
			region, zone := got[priceKey{"t3.medium", onDemand, ""}], got[priceKey{"t3.medium", onDemand, local}]
			if region != 41600 || zone != 49900 || got[priceKey{"t3.medium", onDemand, "us-west-2a"}] != 0 || got[priceKey{"m5.large", onDemand, local}] != 0 {
				t.Errorf("t3.medium costs %d in the region and %d in %s; %v", region, zone, local, got[priceKey{"m5.large", onDemand, local}])
			}
			if price, seen := got[priceKey{"t3.medium", spot, local}]; !seen || price <= 0 || got[priceKey{"t3.medium", spot, ""}] != 0 {
				t.Errorf("spot costs %d in the zone, and %d is assumed", price, got[priceKey{"t3.medium", spot, ""}])
			}
		})
	}
	t.Run("without the price API", func(t *testing.T) {
		r := newEdgeRig(t)
		r.control("POST", "faults", simclient.Fault{Action: "GetProducts", Drop: true})
		r.poll("instance_types", "spot_prices")
		if err := r.task("on_demand_prices").pollPatiently(t.Context()); err == nil {
			t.Fatal("the price API answers")
		}
		if got := r.out.prices(); got[priceKey{"t3.medium", onDemand, ""}] != 41600 || len(got) < 1000 {
			t.Errorf("%d prices, t3.medium at %d", len(got), got[priceKey{"t3.medium", onDemand, ""}])
		}
	})
}
