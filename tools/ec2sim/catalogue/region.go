package catalogue

import (
	"slices"
	"strings"
	"sync"
)

// Zone of a region. ID is the same in every account, Name is per account.
type Zone struct {
	Name string
	ID   string
}

// Region says where types are offered and what they cost there.
type Region struct {
	Name  string
	Zones []Zone
	// factor multiplies the us-east-1 prices, in thousandths.
	factor int64
}

var regionZones = map[string][]string{
	"us-west-2": {"usw2-az2", "usw2-az1", "usw2-az3", "usw2-az4"},
	"us-east-1": {"use1-az2", "use1-az4", "use1-az6", "use1-az1", "use1-az3", "use1-az5"},
}

// priceFactors are estimates: only us-east-1 is data. us-west-2 has the same list prices.
var priceFactors = map[string]int64{
	"us-east-1": 1000, "us-west-2": 1000, "us-east-2": 1000, "eu-west-1": 1100,
	"eu-central-1": 1180, "ap-northeast-1": 1240, "sa-east-1": 1500,
}

// NewRegion returns the region with its zones; letters, if any, narrow them ("abc" keeps the first three).
// Regions the tables do not know get three zones, or those asked for, and prices one tenth above us-east-1.
func NewRegion(name, letters string) *Region {
	r := &Region{Name: name, factor: 1100}
	if f, ok := priceFactors[name]; ok {
		r.factor = f
	}
	for i, id := range zoneIDs(name, letters) {
		letter := string(rune('a' + i))
		if letters == "" || strings.Contains(letters, letter) {
			r.Zones = append(r.Zones, Zone{Name: name + letter, ID: id})
		}
	}
	return r
}

func zoneIDs(region, letters string) []string {
	if ids, ok := regionZones[region]; ok {
		return ids
	}
	count := 3
	for _, letter := range letters {
		count = max(count, int(letter-'a')+1)
	}
	short := shortRegion(region)
	var ids []string
	for i := range min(count, 6) {
		ids = append(ids, short+"-az"+string(rune('1'+i)))
	}
	return ids
}

// shortRegion abbreviates as zone ids do: eu-central-1 -> euc1.
func shortRegion(region string) string {
	parts := strings.Split(region, "-")
	short := parts[0]
	for _, part := range parts[1:] {
		if part != "" {
			short += part[:1]
		}
	}
	return short
}

// Zone returns the zone of that name or id.
func (r *Region) Zone(name string) (Zone, bool) {
	for _, z := range r.Zones {
		if z.Name == name || z.ID == name {
			return z, true
		}
	}
	return Zone{}, false
}

// Offers reports whether the type can be had in the zone.
func (r *Region) Offers(t *Type, zone string) bool {
	z, ok := r.Zone(zone)
	switch {
	case !ok:
		return false
	case z.Kind() == LocalZone:
		return slices.Contains(edgeTypes, t.Name)
	case z.Kind() == WavelengthZone:
		return slices.Contains(wavelengthTypes, t.Name)
	}
	letter := zone[len(zone)-1:]
	switch r.Name {
	case "us-west-2":
		return strings.Contains(oregon(t), letter)
	case "us-east-1":
		return virginia(t, letter)
	}
	return true
}

// offeredOnly lists families that not all zones of us-west-2 have.
var offeredOnly = map[string][]string{
	"abc": {"m5n", "m5dn", "r5n", "r5b", "c6in", "m6in", "r6in", "m6idn", "r6idn", "m8gn", "r8gn", "x8g", "g4dn", "g4ad",
		"g5", "g5g", "p4de", "x1", "x1e", "x2gd", "x2idn", "x2iedn", "x2iezn", "z1d", "m5zn", "m4", "c4", "r4", "t2",
		"im4gn", "is4gen", "u7i-12tb"},
	"abd": {"c5ad"},
	"acd": {"p5en"},
	"bd":  {"trn1"},
	"d":   {"trn1n"},
	"ac":  {"a1"},
	"":    {"p3", "trn2", "dl1", "hpc7g"},
}

var oregonLetters = sync.OnceValue(func() map[string]string {
	out := map[string]string{}
	for letters, families := range offeredOnly {
		for _, family := range families {
			out[family] = letters
		}
	}
	return out
})

func oregon(t *Type) string {
	if letters, ok := oregonLetters()[t.Family]; ok {
		return letters
	}
	return "abcd"
}

// Zone e of us-east-1 is nearly empty; zone f lacks a list of families.
var (
	virginiaE    = []string{"p5", "i3", "x1", "m4", "c4", "r4", "t2"}
	virginiaNotF = []string{"r5b", "c9g", "m9g", "m8gn", "r8gn", "x8g", "i8g", "g4ad", "g5g", "g6e", "gr6", "p4d", "d3", "d3en",
		"x1e", "im4gn", "is4gen"}
)

func virginia(t *Type, letter string) bool {
	switch letter {
	case "e":
		return slices.Contains(virginiaE, t.Family)
	case "f":
		return !slices.Contains(virginiaNotF, t.Family)
	}
	return true
}

// Types returns the types offered in at least one zone, by name.
func (r *Region) Types() []*Type {
	var out []*Type
	for _, t := range All() {
		if slices.ContainsFunc(r.Zones, func(z Zone) bool { return r.Offers(t, z.Name) }) {
			out = append(out, t)
		}
	}
	return out
}

// OnDemand is the price per hour in micro USD; 0 means it is not known.
func (r *Region) OnDemand(t *Type) int64 { return t.PriceMicroUSD * r.factor / 1000 }
