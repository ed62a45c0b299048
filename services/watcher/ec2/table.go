package ec2

import (
	_ "embed"
	"fmt"
	"strconv"
	"strings"
	"sync"
)

//go:embed tables/types.txt
var typesTable string

//go:embed tables/bandwidth.txt
var bandwidthTable string

// known is what a table says about a type.
type known struct {
	branchENIs      int64
	microUSDPerHour int64
}

// knownTypes by name.
var knownTypes = sync.OnceValue(func() map[string]known {
	out := map[string]known{}
	for _, fields := range rows(typesTable) {
		for _, cell := range fields[1:] {
			parts := strings.Split(cell, ":")
			out[fields[0]+"."+parts[0]] = known{branchENIs: whole(parts[1]), microUSDPerHour: whole(parts[2])}
		}
	}
	return out
})

// documentedBandwidth in Mbps by type.
var documentedBandwidth = sync.OnceValue(func() map[string]int64 {
	out := map[string]int64{}
	for _, fields := range rows(bandwidthTable) {
		out[fields[0]] = whole(fields[1])
	}
	return out
})

func rows(table string) [][]string {
	var out [][]string
	for line := range strings.Lines(table) {
		if fields := strings.Fields(line); len(fields) > 0 && fields[0] != "#" {
			out = append(out, fields)
		}
	}
	return out
}

// whole panics on what is not a number: the tables are part of the program.
func whole(s string) int64 {
	n, err := strconv.ParseInt(s, 10, 64)
	if err != nil {
		panic(fmt.Sprintf("built-in table: %v", err))
	}
	return n
}
