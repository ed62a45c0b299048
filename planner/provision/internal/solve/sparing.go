package solve

import (
	"millwright/planner/provision/internal/place"
)

// A claim may become a node of any of its types, so it is charged for the largest of them: a few claims for
// small pods can use up a limit. Where that leaves pods without a place, claims are built once more
// sparingly: each is charged for the type that uses the least of the limits, and in the end all share what is
// left and drop the types that would exceed their part.
//
// With a limit of 20 CPU and types of 2, 4, 8 and 16 CPU, three claims for small pods are charged 2 CPU each;
// 14 are left. The first may have 2 + 14/3 = 6, so it keeps the types of 2 and 4 CPU; the second 2 + 12/2 = 8
// and keeps three types, the third 2 + 6 = 8 too.

// spareLimits charges claims of the pools with limits for their smallest type, as far as possible: minValues
// and reserved capacity need all their types.
func (s *Solver) spareLimits() (any bool) {
	for _, t := range s.Templates {
		if t.Limits.Bounded() && len(t.Minima) == 0 && len(t.Catalog.Reservations()) == 0 {
			t.Limits.OrderByShare(t.Catalog)
			any = true
		}
	}
	return any
}

// ShareLimits gives each sparing claim its part of what is left of the limits.
func (s *Solver) ShareLimits() {
	for _, t := range s.Templates {
		if !t.Limits.Sparing() {
			continue
		}
		var list []*place.OpenClaim
		for b, o := range s.Claims() {
			if o.Template == t && len(b.Added) > o.Before {
				list = append(list, o)
			}
		}
		for i, o := range list {
			o.TakePart(int64(len(list) - i))
		}
	}
}
