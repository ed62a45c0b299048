package catalogue

import (
	"embed"
	"fmt"
	"strconv"
	"strings"
)

//go:embed tables/*.txt
var tables embed.FS

// rows returns a table's lines as cells, comments left out. The tables are part of the program, so a
// malformed one is a programming error and panics; the tests load all of them.
func rows(name string) [][]string {
	var out [][]string
	for _, line := range lines(name) {
		cells := strings.Split(line, "|")
		for i := range cells {
			cells[i] = strings.TrimSpace(cells[i])
		}
		out = append(out, cells)
	}
	return out
}

func lines(name string) []string {
	data, err := tables.ReadFile("tables/" + name + ".txt")
	if err != nil {
		panic(fmt.Sprintf("read table %s: %v", name, err))
	}
	var out []string
	for line := range strings.Lines(string(data)) {
		line = strings.TrimRight(line, "\n ")
		if line != "" && !strings.HasPrefix(line, "#") {
			out = append(out, line)
		}
	}
	return out
}

// ladder maps a short size to a cell of a ladder.
type ladder map[string]string

// ladders reads a table of `id | size=value …` rows.
func ladders(name string) map[string]ladder {
	out := map[string]ladder{}
	for _, row := range rows(name) {
		l := ladder{}
		for _, field := range strings.Fields(row[1]) {
			size, value, _ := strings.Cut(field, "=")
			l[size] = value
		}
		out[row[0]] = l
	}
	return out
}

// size of a size set: a bare-metal size takes its row of the ladders from the virtual size it aliases.
type size struct {
	name  string // short
	alias string
}

func sizeSets() map[string][]size {
	out := map[string][]size{}
	for _, row := range rows("sizes") {
		for _, field := range strings.Fields(row[1]) {
			name, alias, aliased := strings.Cut(strings.TrimSuffix(field, ")"), "(=")
			if !aliased {
				alias = strings.TrimPrefix(name, "metal-")
			}
			out[row[0]] = append(out[row[0]], size{name, alias})
		}
	}
	return out
}

// exceptions maps "attribute family size" to the value that replaces the ladder's.
func exceptions() map[string]string {
	out := map[string]string{}
	for _, row := range rows("exceptions") {
		for _, family := range strings.Fields(row[1]) {
			for _, size := range strings.Fields(row[2]) {
				out[row[0]+" "+family+" "+size] = row[3]
			}
		}
	}
	return out
}

// whole parses an integer cell; "" and "-" are 0.
func whole(cell string) int64 {
	if cell == "" || cell == "-" {
		return 0
	}
	n, err := strconv.ParseInt(cell, 10, 64)
	if err != nil {
		panic(fmt.Sprintf("table cell %q: %v", cell, err))
	}
	return n
}

// decimal parses a decimal cell; "" and "-" are 0.
func decimal(cell string) float64 {
	if cell == "" || cell == "-" {
		return 0
	}
	f, err := strconv.ParseFloat(cell, 64)
	if err != nil {
		panic(fmt.Sprintf("table cell %q: %v", cell, err))
	}
	return f
}

// interfaces parses "8x30" or "8x50x2c": interfaces of the default card, addresses per interface, cards.
func interfaces(cell string) (enis, addresses, cards int) {
	parts := strings.Split(cell, "x")
	cards = 1
	if len(parts) == 3 {
		cards = int(whole(strings.TrimSuffix(parts[2], "c")))
	}
	return int(whole(parts[0])), int(whole(parts[1])), cards
}
