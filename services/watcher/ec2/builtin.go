package ec2

import (
	"fmt"
	"slices"
	"strings"
)

// FallbackRegion is the one whose table has the newest types. Its prices stand in for those of regions
// without a table, and what other tables lack is estimated from them.
const FallbackRegion = "us-east-1"

// builtIn are the prices that a region has without the price API.
type builtIn struct {
	PriceTable
	// estimated types are not in the region's table: they are taken to cost ratio millionths of what they
	// cost in FallbackRegion, of whose date the estimate is.
	estimated int
	ratio     int64
	estimates string
}

// source says what the prices are, for logs and notes.
func (b *builtIn) source() string {
	text := "of " + b.Region + ", " + b.Date
	if b.estimated > 0 {
		text += fmt.Sprintf("; %d types that were not in it are estimated at %d.%02d times their price in %s, %s",
			b.estimated, b.ratio/1_000_000, b.ratio%1_000_000/10_000, FallbackRegion, b.estimates)
	}
	return text
}

// pricesFor are the built-in prices of a region: those of its table, and estimates for the types that only
// FallbackRegion has in its own. Without a table they are those of FallbackRegion. Nothing of it is kept.
func pricesFor(region string) *builtIn {
	base, known := regionTable(priceTables, FallbackRegion)
	own, ok := base, known
	if region != FallbackRegion {
		own, ok = regionTable(priceTables, region)
	}
	if !ok {
		return &builtIn{PriceTable: base}
	}
	b := &builtIn{PriceTable: own, ratio: medianRatio(own.Prices, base.Prices), estimates: base.Date}
	for name, price := range base.Prices {
		if _, ok := own.Prices[name]; !ok && b.ratio > 0 {
			own.Prices[name] = max(1, (price*b.ratio+500_000)/1_000_000)
			b.estimated++
		}
	}
	return b
}

// regionTable reads one region out of the tables; false if it is not there. It panics on a table that cannot
// be read: those that it is called with are part of the program.
func regionTable(text, region string) (PriceTable, bool) {
	head := "\n" + regionLine + " " + region + " "
	from := strings.Index(text, head)
	if from < 0 {
		return PriceTable{Region: region}, false
	}
	part := text[from+1:]
	if end := strings.Index(part, "\n"+regionLine+" "); end >= 0 {
		part = part[:end]
	}
	tables, err := ParsePriceTables(part)
	if err != nil {
		panic(fmt.Sprintf("built-in table: %v", err))
	}
	return tables[0], true
}

// medianRatio of what types cost in both, in millionths; 0 if they have none in common. Most types keep to
// one ratio per region, so that the few whose price changed between the dates of two tables do not count.
func medianRatio(prices, base map[string]int64) int64 {
	var ratios []int64
	for name, price := range prices {
		if b := base[name]; b > 0 {
			ratios = append(ratios, price*1_000_000/b)
		}
	}
	if len(ratios) == 0 {
		return 0
	}
	slices.Sort(ratios)
	return ratios[len(ratios)/2]
}
