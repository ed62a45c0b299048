// Ec2tables renews the tables of services/watcher/ec2 from AWS's own API, with the usual credentials of the
// AWS SDK:
//
//	ec2tables prices                 the price list: on-demand, Linux, us-east-1
//	ec2tables bandwidth TABLE        the rows of TABLE that DescribeInstanceTypes does not report too
//
// Each writes a whole table to standard output, and what should be checked to standard error. `make
// ec2-tables` runs both. The third table is that of tools/vpclimits.
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

// pricesRegion is the one whose prices are built in.
const pricesRegion = "us-east-1"

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
	case len(args) == 1 && args[0] == "prices":
		return prices(ctx, now, out, notes)
	case len(args) == 2 && args[0] == "bandwidth":
		table, err := os.ReadFile(args[1])
		if err != nil {
			return err
		}
		return bandwidth(ctx, string(table), now, out, notes)
	}
	return errors.New("usage: ec2tables prices, or ec2tables bandwidth TABLE")
}

// prices writes what the price list says. What it does not name is left out: types come and go.
func prices(ctx context.Context, now time.Time, out, notes io.Writer) error {
	sdk, err := config.LoadDefaultConfig(ctx)
	if err != nil {
		return err
	}
	sdk.Region = pricesRegion
	_, api := watcherec2.Clients(sdk)
	found, err := watcherec2.OnDemandPrices(ctx, api, pricesRegion, func(err error) { fmt.Fprintln(notes, err) })
	if err != nil {
		return err
	}
	fmt.Fprintf(out, `# By family: size:micro-dollars per hour, on demand, Linux, in %s. They stand in until the price API answers, in every region. Types that are
# not here have no known price.
# Source: AWS price list (GetProducts), %s. Made by tools/ec2tables prices; do not edit.
`, pricesRegion, now.UTC().Format(time.DateOnly))
	return write(out, found)
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
