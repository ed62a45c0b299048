package offer

import (
	"millwright/planner/bitset"
	"millwright/planner/requirement"
)

// Minimum demands a number of distinct values among the instance types.
type Minimum struct {
	Key string
	N   int
}

// Reached lowers minima to what the types reach.
func (t *Template) Reached(set requirement.Set, types bitset.Set, minima []Minimum) []Minimum {
	lower := make([]Minimum, len(minima))
	for i, m := range minima {
		lower[i] = Minimum{m.Key, t.distinct(set, types, m.Key, m.N)}
	}
	return lower
}

// Unmet lists the keys of minima that the types do not reach; values the claim excludes do not count.
func (t *Template) Unmet(set requirement.Set, types bitset.Set, minima []Minimum) []string {
	var keys []string
	for _, m := range minima {
		if t.distinct(set, types, m.Key, m.N) < m.N {
			keys = append(keys, m.Key)
		}
	}
	return keys
}

// distinct counts the values of key among the types, up to enough.
func (t *Template) distinct(set requirement.Set, types bitset.Set, key string, enough int) int {
	r, n := set.Get(key), 0
	for _, v := range t.Catalog.Values(key) {
		if n < enough && r.Has(v) && t.Catalog.Having(key, v).Meets(types) {
			n++
		}
	}
	return n
}
