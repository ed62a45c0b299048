package ec2

import (
	_ "embed"
	"fmt"
	"strconv"
	"strings"
	"sync"
)

// The tables hold what EC2's API does not say; the head of each names its source and date.
var (
	//go:embed tables/vpc.txt
	vpcTable string
	//go:embed tables/prices.txt
	priceTables string
	//go:embed tables/bandwidth.txt
	bandwidthTable string
)

// interfaces are the limits of a type's network interfaces.
type interfaces struct {
	// branch interfaces; 0 if the type cannot trunk.
	branch int64
	// addresses of IPv4 per interface.
	addresses int64
}

// knownInterfaces by type; one that is missing has no branch interfaces.
var knownInterfaces = sync.OnceValue(func() map[string]interfaces {
	out := map[string]interfaces{}
	for name, cell := range cells(vpcTable) {
		out[name] = interfaces{branch: whole(cell[0]), addresses: whole(cell[1])}
	}
	return out
})

// documentedBandwidth in Mbps by type; 0: documented in words only.
var documentedBandwidth = sync.OnceValue(func() map[string]int64 { return numbers(bandwidthTable) })

func numbers(table string) map[string]int64 {
	out := map[string]int64{}
	for name, cell := range cells(table) {
		out[name] = whole(cell[0])
	}
	return out
}

// cells of a table by type, without its size.
func cells(table string) map[string][]string {
	out := map[string][]string{}
	for _, fields := range rows(table) {
		for _, cell := range fields[1:] {
			parts := strings.Split(cell, ":")
			out[fields[0]+"."+parts[0]] = parts[1:]
		}
	}
	return out
}

func rows(table string) [][]string {
	var out [][]string
	for line := range strings.Lines(table) {
		if fields := strings.Fields(line); len(fields) > 0 && fields[0] != "#" {
			out = append(out, fields)
		}
	}
	return out
}

// whole panics on anything but a number: the tables are part of the program.
func whole(s string) int64 {
	n, err := strconv.ParseInt(s, 10, 64)
	if err != nil {
		panic(fmt.Sprintf("built-in table: %v", err))
	}
	return n
}
