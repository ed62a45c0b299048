package ec2

import (
	"bufio"
	"cmp"
	"errors"
	"fmt"
	"io"
	"maps"
	"math"
	"slices"
	"strconv"
	"strings"
)

// PriceTable holds built-in on-demand prices of a region, in millionths of its currency per hour by instance
// type. Date is that of its source.
type PriceTable struct {
	Region, Date string
	Prices       map[string]int64
}

const regionLine = "region"

// ParsePriceTables reads what FormatPriceTables wrote; lines that begin with # are comments. The form is
//
//	region us-east-1 2026-11-23
//	m5 @96000 large xlarge metal:4608000
//
// for a large at 96000, an xlarge at twice that, and a metal at the price that is given.
func ParsePriceTables(text string) (tables []PriceTable, err error) {
	for _, fields := range rows(text) {
		if fields[0] == regionLine {
			if len(fields) != 3 {
				return nil, fmt.Errorf("price table: %q is no region with a date", strings.Join(fields, " "))
			}
			tables = append(tables, PriceTable{Region: fields[1], Date: fields[2], Prices: map[string]int64{}})
			continue
		}
		if len(tables) == 0 {
			return nil, errors.New("price table: prices come before the first region")
		}
		t := &tables[len(tables)-1]
		large := int64(0)
		for _, cell := range fields[1:] {
			size, text, priced := strings.Cut(cell, ":")
			price, ok := ofLarge(large, size)
			switch {
			case strings.HasPrefix(cell, "@"):
				large, err = strconv.ParseInt(cell[1:], 10, 64)
			case priced:
				price, err = strconv.ParseInt(text, 10, 64)
			case !ok:
				err = errors.New("it has no price")
			}
			if err != nil {
				return nil, fmt.Errorf("price table of %s: %s %s: %w", t.Region, fields[0], cell, err)
			}
			if !strings.HasPrefix(cell, "@") {
				t.Prices[fields[0]+"."+size] = price
			}
		}
	}
	return tables, nil
}

// ofLarge is the price of a size that costs as much for its cores as a large; false if sizes of that name
// have none, or the price would be a fraction.
func ofLarge(large int64, size string) (int64, bool) {
	parts := map[string]int64{"nano": 16, "micro": 8, "small": 4, "medium": 2, "large": 1}[size]
	if parts > 0 {
		return large / parts, large > 0 && large%parts == 0
	}
	n, ok := strings.CutSuffix(strings.TrimPrefix(size, "metal-"), "xlarge")
	if !ok {
		n, ok = strings.CutSuffix(strings.TrimPrefix(size, "metal-"), "xl")
	}
	times, err := strconv.ParseInt(cmp.Or(n, "1"), 10, 64)
	if !ok || err != nil || times < 1 || times > math.MaxInt32 || large > math.MaxInt32 {
		return 0, false
	}
	return 2 * times * large, large > 0
}

// FormatPriceTables writes the tables, by region, families and sizes by name.
func FormatPriceTables(w io.Writer, tables []PriceTable) error {
	b := bufio.NewWriter(w)
	for _, t := range slices.SortedFunc(slices.Values(tables), func(a, b PriceTable) int { return cmp.Compare(a.Region, b.Region) }) {
		fmt.Fprintf(b, "%s %s %s\n", regionLine, t.Region, t.Date)
		families := map[string]map[string]int64{}
		for name, price := range t.Prices {
			family, size, _ := strings.Cut(name, ".")
			if families[family] == nil {
				families[family] = map[string]int64{}
			}
			families[family][size] = price
		}
		for _, family := range slices.Sorted(maps.Keys(families)) {
			b.WriteString(family)
			formatSizes(b, families[family])
			b.WriteByte('\n')
		}
	}
	return b.Flush()
}

func formatSizes(b *bufio.Writer, sizes map[string]int64) {
	large, most := int64(0), 1 // one size alone is no shorter by it
	for _, candidate := range slices.Sorted(maps.Values(largeOf(sizes))) {
		n := 0
		for size, price := range sizes {
			if p, ok := ofLarge(candidate, size); ok && p == price {
				n++
			}
		}
		if n > most {
			large, most = candidate, n
		}
	}
	if large > 0 {
		fmt.Fprintf(b, " @%d", large)
	}
	for _, size := range slices.Sorted(maps.Keys(sizes)) {
		if p, ok := ofLarge(large, size); ok && p == sizes[size] {
			b.WriteString(" " + size)
			continue
		}
		fmt.Fprintf(b, " %s:%d", size, sizes[size])
	}
}

// largeOf is what a large would cost by the price of each size.
func largeOf(sizes map[string]int64) map[string]int64 {
	out := map[string]int64{}
	for size, price := range sizes {
		// of 16 times a nano, or a 64th part of a 32xlarge
		if p, ok := ofLarge(1<<20, size); ok && p > 0 && price < math.MaxInt32 {
			if large := price * (1 << 20) / p; large > 0 {
				out[size] = large
			}
		}
	}
	return out
}
