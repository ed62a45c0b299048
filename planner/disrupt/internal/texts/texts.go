// Package texts writes what records say of nodes and pods. It is for package disrupt alone.
package texts

import (
	"fmt"
	"strings"

	"millwright/planner/world"
)

// PodNames names the first few pods.
func PodNames(pods []*world.Pod) string {
	var names []string
	for _, p := range pods[:min(len(pods), 5)] {
		names = append(names, p.Key())
	}
	if more := len(pods) - 5; more > 0 {
		return fmt.Sprintf("%s and %d other(s)", strings.Join(names, ", "), more)
	}
	return strings.Join(names, ", ")
}

// LowerFirst writes a sentence as a part of another; "" says that the node is not managed.
func LowerFirst(s string) string {
	if s == "" {
		return "no longer managed"
	}
	return strings.ToLower(s[:1]) + s[1:]
}
