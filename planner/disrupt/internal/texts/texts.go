// Package texts writes what records say of nodes and pods. It is for package disrupt alone.
package texts

import (
	"fmt"
	"strings"

	policyv1 "k8s.io/api/policy/v1"

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

// BudgetNames names PodDisruptionBudgets, as Karpenter does.
func BudgetNames(list []*policyv1.PodDisruptionBudget) string {
	names := make([]string, len(list))
	for i, p := range list {
		names[i] = p.Namespace + "/" + p.Name
	}
	return strings.Join(names, " ")
}

// LowerFirst writes a sentence as a part of another; "" says that the node is not managed.
func LowerFirst(s string) string {
	if s == "" {
		return "no longer managed"
	}
	return strings.ToLower(s[:1]) + s[1:]
}
