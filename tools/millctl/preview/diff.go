package preview

import (
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"os"
	"slices"
	"strings"
)

// WriteDiff writes what has changed since a catalogue that was written as JSON: a line for each type that is
// new (+) or gone (-), and for each value that differs (~).
func (c Catalog) WriteDiff(w io.Writer, path string) error {
	data, err := os.ReadFile(path)
	if err != nil {
		return fmt.Errorf("read old catalogue: %w", err)
	}
	var old Catalog
	if err := json.Unmarshal(data, &old); err != nil {
		return fmt.Errorf("read old catalogue %s: %w", path, err)
	}
	before, after := old.byName(), c.byName()
	var lines []string
	for _, name := range union(before, after) {
		was, had := before[name]
		is, has := after[name]
		switch {
		case !had:
			lines = append(lines, "+ "+name)
		case !has:
			lines = append(lines, "- "+name)
		default:
			for _, key := range union(was, is) {
				if a, b := was[key], is[key]; a != b {
					lines = append(lines, fmt.Sprintf("~ %s %s: %s -> %s", name, key, orNone(a), orNone(b)))
				}
			}
		}
	}
	for _, line := range lines {
		if _, err := fmt.Fprintln(w, line); err != nil {
			return err
		}
	}
	return nil
}

func orNone(text string) string {
	if text == "" {
		return "none"
	}
	return text
}

func union[V any](a, b map[string]V) []string {
	all := maps.Clone(a)
	maps.Copy(all, b)
	return slices.Sorted(maps.Keys(all))
}

// place names an offering among those of its type.
func (o *Offering) place() string {
	parts := []string{o.Zone, o.CapacityType}
	if o.ReservationID != "" {
		parts = append(parts, o.ReservationID)
	}
	if o.PlacementGroup != "" {
		parts = append(parts, o.PlacementGroup)
	}
	if o.Partition > 0 {
		parts = append(parts, fmt.Sprintf("partition %d", o.Partition))
	}
	return strings.Join(parts, " ")
}

// byName are the values of each type by what they are.
func (c Catalog) byName() map[string]map[string]string {
	out := map[string]map[string]string{}
	for _, t := range c.InstanceTypes {
		values := map[string]string{}
		for _, r := range t.Requirements {
			values["label "+r.Key] = strings.TrimSpace(r.Operator + " " + strings.Join(r.Values, ","))
		}
		for name, q := range t.Capacity {
			values["capacity "+string(name)] = q.String()
		}
		for name, q := range t.Allocatable {
			values["allocatable "+string(name)] = q.String()
		}
		for _, o := range t.Offerings {
			price := "no price"
			if o.Price != nil {
				price = fmt.Sprintf("$%g", *o.Price)
			}
			values["offering "+o.place()] = fmt.Sprintf("%s, available %t", price, o.Available)
		}
		out[t.Name] = values
	}
	return out
}
