package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"math"
	"os"
	"slices"
	"strconv"
	"strings"
	"time"

	watcherec2 "millwright/services/watcher/ec2"
)

// listedType is the part of an entry of ec2instances.info that contains on-demand prices of Linux: text, in
// USD per hour, by region, or by group of local zones.
type listedType struct {
	InstanceType string `json:"instance_type"`
	Pricing      map[string]struct {
		Linux struct {
			OnDemand string `json:"ondemand"`
		} `json:"linux"`
	} `json:"pricing"`
}

// pricesFrom writes a table with the regions that a file of ec2instances.info lists, as of its date. Regions
// whose prices in the table are not older stay, and get from the file the types alone that they lack; so do
// those that the file does not list. What is kept, added or cannot be a price is noted.
func pricesFrom(table, path, date string, out, notes io.Writer) error {
	if _, err := time.Parse(time.DateOnly, date); err != nil {
		return fmt.Errorf("date of the file: %w", err)
	}
	tables, err := watcherec2.ParsePriceTables(table)
	if err != nil {
		return err
	}
	listed, err := readListed(path, notes)
	if err != nil {
		return err
	}
	for _, region := range slices.Sorted(maps.Keys(listed)) {
		found := listed[region]
		i := slices.IndexFunc(tables, func(t watcherec2.PriceTable) bool { return t.Region == region })
		switch {
		case i < 0:
			tables = append(tables, watcherec2.PriceTable{Region: region, Date: date, Prices: found})
		case older(tables[i].Date, date):
			tables[i].Date, tables[i].Prices = date, found
		default:
			complete(&tables[i], found, notes)
		}
	}
	for _, line := range comments(table) {
		fmt.Fprintln(out, line)
	}
	return watcherec2.FormatPriceTables(out, tables)
}

// older reports that a date is before another; one in words is not.
func older(date, than string) bool {
	_, err := time.Parse(time.DateOnly, date)
	return err == nil && date < than
}

// complete adds to a table the types that it lacks, and notes where both have a price and differ by more than
// one in a hundred.
func complete(t *watcherec2.PriceTable, found map[string]int64, notes io.Writer) {
	var added []string
	for _, name := range slices.SortedFunc(maps.Keys(found), byFamily) {
		kept, both := t.Prices[name]
		switch price := found[name]; {
		case !both:
			t.Prices[name] = price
			added = append(added, name)
		case max(kept, price)-min(kept, price) > kept/100:
			fmt.Fprintf(notes, "%s: %s costs %d by %s, and %d by the file\n", t.Region, name, kept, t.Date, price)
		}
	}
	fmt.Fprintf(notes, "%s: kept, of %s; %d types added: %s\n", t.Region, t.Date, len(added), strings.Join(added, " "))
}

// readListed reads the file entry by entry, which is far larger than what it is read for.
func readListed(path string, notes io.Writer) (map[string]map[string]int64, error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	d := json.NewDecoder(f)
	if _, err := d.Token(); err != nil {
		return nil, fmt.Errorf("read %s: %w", path, err)
	}
	out := map[string]map[string]int64{}
	for d.More() {
		var t listedType
		if err := d.Decode(&t); err != nil {
			return nil, fmt.Errorf("read %s: %w", path, err)
		}
		for _, region := range slices.Sorted(maps.Keys(t.Pricing)) {
			text := t.Pricing[region].Linux.OnDemand
			if text == "" {
				continue // sold with Windows alone
			}
			usd, err := strconv.ParseFloat(text, 64)
			if err != nil || usd <= 0 || usd > 10_000 {
				fmt.Fprintf(notes, "%s: the price of %s, %q, is left out\n", region, t.InstanceType, text)
				continue
			}
			if out[region] == nil {
				out[region] = map[string]int64{}
			}
			out[region][t.InstanceType] = int64(math.Round(usd * 1e6))
		}
	}
	if len(out) == 0 {
		return nil, errors.New("read " + path + ": it has no prices")
	}
	return out, nil
}
