package audit

import (
	"maps"
	"slices"
)

// unionKeys returns the keys of both maps, sorted and distinct.
func unionKeys[V any](a, b map[string]V) []string {
	keys := slices.AppendSeq(slices.Collect(maps.Keys(a)), maps.Keys(b))
	slices.Sort(keys)
	return slices.Compact(keys)
}
