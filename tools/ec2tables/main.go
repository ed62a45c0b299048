// Ec2tables renews the tables of services/watcher/ec2. The first two read AWS's own API, with the usual
// credentials of the AWS SDK, the third a file:
//
//	ec2tables prices TABLE REGION…          TABLE with these regions as the price list has them: on-demand, Linux
//	ec2tables bandwidth TABLE               the rows of TABLE that DescribeInstanceTypes does not report too
//	ec2tables prices-from TABLE FILE DATE   TABLE with the regions that a file of ec2instances.info lists
//
// Each writes a whole table to standard output, and what should be checked to standard error. `make
// ec2-tables` runs the first two. FILE is a list of instance types with their prices by region
// (instances.json), downloaded on DATE; regions whose prices are not older keep them. The third table is
// that of tools/vpclimits.
package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"os"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/config"
	awsec2 "github.com/aws/aws-sdk-go-v2/service/ec2"

	watcherec2 "millwright/services/watcher/ec2"
)

func main() {
	if err := run(context.Background(), os.Args[1:], time.Now(), os.Stdout, os.Stderr); err != nil {
		fmt.Fprintln(os.Stderr, "ec2tables:", err)
		os.Exit(1)
	}
}

func run(ctx context.Context, args []string, now time.Time, out, notes io.Writer) error {
	ctx, cancel := context.WithTimeout(ctx, 10*time.Minute)
	defer cancel()
	switch {
	case len(args) > 2 && args[0] == "prices":
		table, err := os.ReadFile(args[1])
		if err != nil {
			return err
		}
		return prices(ctx, string(table), args[2:], now, out, notes)
	case len(args) == 2 && args[0] == "bandwidth":
		table, err := os.ReadFile(args[1])
		if err != nil {
			return err
		}
		return bandwidth(ctx, string(table), now, out, notes)
	case len(args) == 4 && args[0] == "prices-from":
		table, err := os.ReadFile(args[1])
		if err != nil {
			return err
		}
		return pricesFrom(string(table), args[2], args[3], out, notes)
	}
	return errors.New("usage: ec2tables prices TABLE REGION…, ec2tables bandwidth TABLE, or ec2tables prices-from TABLE FILE DATE")
}

// prices writes a table with what the price list says of some regions; the others stay, with their dates.
// What the list does not name is left out: types come and go. The credentials of one partition do not open
// another, so those of aws-cn are asked for apart.
func prices(ctx context.Context, table string, regions []string, now time.Time, out, notes io.Writer) error {
	sdk, err := config.LoadDefaultConfig(ctx)
	if err != nil {
		return err
	}
	tables, err := watcherec2.ParsePriceTables(table)
	if err != nil {
		return err
	}
	for _, region := range regions {
		sdk.Region = region
		_, api := watcherec2.Clients(sdk)
		found, err := watcherec2.OnDemandPrices(ctx, api, region, func(err error) { fmt.Fprintln(notes, region+":", err) })
		if err != nil {
			return fmt.Errorf("prices of %s: %w", region, err)
		}
		tables = slices.DeleteFunc(tables, func(t watcherec2.PriceTable) bool { return t.Region == region })
		tables = append(tables, watcherec2.PriceTable{Region: region, Date: now.UTC().Format(time.DateOnly), Prices: found})
	}
	for _, line := range comments(table) {
		fmt.Fprintln(out, line)
	}
	return watcherec2.FormatPriceTables(out, tables)
}

// bandwidth writes the part of a table that is still needed: types for which DescribeInstanceTypes
// reports another bandwidth than the table, or which it does not know in the region.
func bandwidth(ctx context.Context, table string, now time.Time, out, notes io.Writer) error {
	sdk, err := config.LoadDefaultConfig(ctx)
	if err != nil {
		return err
	}
	documented, err := readTable(table)
	if err != nil {
		return err
	}
	told := map[string]int64{}
	for pages := awsec2.NewDescribeInstanceTypesPaginator(awsec2.NewFromConfig(sdk), &awsec2.DescribeInstanceTypesInput{MaxResults: aws.Int32(100)}); pages.HasMorePages(); {
		page, err := pages.NextPage(ctx)
		if err != nil {
			return fmt.Errorf("describe instance types: %w", err)
		}
		for i := range page.InstanceTypes {
			t := &page.InstanceTypes[i]
			told[string(t.InstanceType)] = watcherec2.CardsMbps(t)
		}
	}
	kept := map[string]int64{}
	for name, mbps := range documented {
		if says, known := told[name]; !known || says != mbps {
			kept[name] = mbps
		}
	}
	for _, name := range slices.Sorted(maps.Keys(kept)) {
		if says, known := told[name]; known {
			fmt.Fprintf(notes, "%s: %d in the table, %d by its network cards\n", name, kept[name], says)
		}
	}
	for _, line := range comments(table) {
		if !strings.HasPrefix(line, compared) {
			fmt.Fprintln(out, line)
		}
	}
	fmt.Fprintf(out, "%s %s, %s.\n", compared, sdk.Region, now.UTC().Format(time.DateOnly))
	return write(out, kept)
}

// compared begins the line of a table's head that says when it was compared.
const compared = "# Compared by tools/ec2tables bandwidth with DescribeInstanceTypes of"

// readTable reads cells of the form size:number behind the name of a family.
func readTable(table string) (map[string]int64, error) {
	out := map[string]int64{}
	for line := range strings.Lines(table) {
		fields := strings.Fields(line)
		if len(fields) == 0 || strings.HasPrefix(line, "#") {
			continue
		}
		for _, cell := range fields[1:] {
			size, number, _ := strings.Cut(cell, ":")
			n, err := strconv.ParseInt(number, 10, 64)
			if err != nil {
				return nil, fmt.Errorf("table: %s.%s: %w", fields[0], size, err)
			}
			out[fields[0]+"."+size] = n
		}
	}
	return out, nil
}

func comments(table string) (lines []string) {
	for line := range strings.Lines(table) {
		if strings.HasPrefix(line, "#") {
			lines = append(lines, strings.TrimSpace(line))
		}
	}
	return lines
}

// write writes a line for each family, its sizes in order of names.
func write(out io.Writer, numbers map[string]int64) error {
	var b bytes.Buffer
	last := ""
	for _, name := range slices.SortedFunc(maps.Keys(numbers), byFamily) {
		family, size, _ := strings.Cut(name, ".")
		if family != last {
			if last != "" {
				b.WriteByte('\n')
			}
			b.WriteString(family)
			last = family
		}
		fmt.Fprintf(&b, " %s:%d", size, numbers[name])
	}
	if last != "" {
		b.WriteByte('\n')
	}
	_, err := out.Write(b.Bytes())
	return err
}

// byFamily orders types by family, then by size: a dot sorts after a hyphen.
func byFamily(a, b string) int {
	familyA, sizeA, _ := strings.Cut(a, ".")
	familyB, sizeB, _ := strings.Cut(b, ".")
	if c := strings.Compare(familyA, familyB); c != 0 {
		return c
	}
	return strings.Compare(sizeA, sizeB)
}
