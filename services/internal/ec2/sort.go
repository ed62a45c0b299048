package ec2

import (
	"maps"
	"slices"
)

func sortedValues[V any](m map[string]V, compare func(a, b V) int) []V {
	return slices.SortedFunc(maps.Values(m), compare)
}
