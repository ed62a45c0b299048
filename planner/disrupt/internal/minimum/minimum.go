// Package minimum knows minValues: how many values of a key the types of a claim must have between them
// (reference: scheduling §7.5).
package minimum

import (
	corev1 "k8s.io/api/core/v1"

	"millwright/planner/catalog"
	"millwright/planner/requirement"
)

// OfTypes is the requirement for these instance types, with the minimum that a set demands of them.
func OfTypes(set requirement.Set, kept []string) requirement.Requirement {
	r := requirement.In(corev1.LabelInstanceTypeStable, kept...)
	if n := set.Get(corev1.LabelInstanceTypeStable).MinValues(); n > 0 {
		r = r.WithMinValues(n)
	}
	return r
}

// Types is how many instance types a set demands at least.
func Types(set requirement.Set) int {
	return set.Get(corev1.LabelInstanceTypeStable).MinValues()
}

// Unmet is the first key whose minValues the types do not meet; "" if all are met.
func Unmet(set requirement.Set, cat *catalog.Catalog, names []string) string {
	for _, r := range set.Requirements() {
		if r.MinValues() == 0 {
			continue
		}
		distinct := map[string]bool{}
		for _, name := range names {
			for _, v := range cat.Type(name).Requirements.Get(r.Key()).Values() {
				if r.Has(v) {
					distinct[v] = true
				}
			}
		}
		if len(distinct) < r.MinValues() {
			return r.Key()
		}
	}
	return ""
}
