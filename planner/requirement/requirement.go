package requirement

import (
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"

	corev1 "k8s.io/api/core/v1"

	karpv1 "millwright/api/karpenter/v1"
)

// Requirement is the set of values a label may take. The zero value forbids the label "".
type Requirement struct {
	key string
	// values, sorted without repeats, are the allowed ones, or the excluded ones of a complement. A
	// concrete requirement (complement false) has no bounds; its values are all within them.
	values     []string
	complement bool
	// gte and lte bound integer values of a complement; absent bounds are the extremes.
	gte, lte int64
	// required: a node must have the label. NotIn and DoesNotExist alone do not demand it.
	required  bool
	minValues int
}

// WithMinValues returns r demanding at least n distinct values of the remaining instance types.
func (r Requirement) WithMinValues(n int) Requirement {
	r.minValues = n
	return r
}

// Key is the label's name, never an alias.
func (r Requirement) Key() string { return r.key }

// MinValues is 0 if not demanded.
func (r Requirement) MinValues() int { return r.minValues }

// Values are the allowed values, or the excluded ones if Complement; sorted, shared.
func (r Requirement) Values() []string { return r.values }

// Complement reports that Values are excluded rather than allowed.
func (r Requirement) Complement() bool { return r.complement }

// Bounds returns the inclusive integer bounds; ok is false if there are none.
func (r Requirement) Bounds() (gte, lte int64, ok bool) { return r.gte, r.lte, r.hasBounds() }

func (r Requirement) hasBounds() bool { return r.gte != math.MinInt64 || r.lte != math.MaxInt64 }

func (r Requirement) inBounds(v string) bool {
	if !r.hasBounds() {
		return true
	}
	n, err := strconv.ParseInt(v, 10, 64)
	return err == nil && r.gte <= n && n <= r.lte
}

// Has reports that the label may have value v.
func (r Requirement) Has(v string) bool {
	_, listed := slices.BinarySearch(r.values, v)
	return listed != r.complement && r.inBounds(v)
}

// Operator derives the API operator; a bounded requirement reads as NotIn or Exists.
func (r Requirement) Operator() corev1.NodeSelectorOperator {
	switch {
	case r.complement && len(r.values) > 0:
		return corev1.NodeSelectorOpNotIn
	case r.complement:
		return corev1.NodeSelectorOpExists
	case len(r.values) > 0:
		return corev1.NodeSelectorOpIn
	}
	return corev1.NodeSelectorOpDoesNotExist
}

// Negative reports that a node without the label satisfies r: it says NotIn or DoesNotExist and nothing
// that demands the label. (Where the reference goes by the derived operator alone, "NotIn a and Exists"
// would hold on nodes where kube-scheduler refuses it.)
func (r Requirement) Negative() bool { return !r.required }

// Impossible reports that no node can satisfy r: what was intersected contradicts itself.
func (r Requirement) Impossible() bool { return r.required && !r.complement && len(r.values) == 0 }

// Single returns the only value r allows, if there is exactly one.
func (r Requirement) Single() (string, bool) {
	if r.complement || len(r.values) != 1 {
		return "", false
	}
	return r.values[0], true
}

// Intersection allows what both allow; both must have the same key.
func (r Requirement) Intersection(o Requirement) Requirement {
	res := Requirement{
		key: r.key, complement: r.complement && o.complement,
		gte: max(r.gte, o.gte), lte: min(r.lte, o.lte), minValues: max(r.minValues, o.minValues),
		required: r.required || o.required,
	}
	if res.gte > res.lte {
		return impossible(r.key).WithMinValues(res.minValues)
	}
	switch {
	case r.complement && o.complement:
		res.values = distinct(slices.Concat(r.values, o.values))
	case r.complement:
		res.values = o.filter(r.Has)
	case o.complement:
		res.values = r.filter(o.Has)
	default:
		res.values = r.filter(o.Has)
	}
	if !res.hasBounds() {
		return res
	}
	res.values = res.filter(res.inBounds)
	if !res.complement {
		res.gte, res.lte = math.MinInt64, math.MaxInt64
	}
	return res
}

// filter returns the values that pass, sharing the slice if all do.
func (r Requirement) filter(pass func(string) bool) []string {
	for i, v := range r.values {
		if pass(v) {
			continue
		}
		kept := slices.Clone(r.values[:i])
		for _, v := range r.values[i+1:] {
			if pass(v) {
				kept = append(kept, v)
			}
		}
		return kept
	}
	return r.values
}

// HasIntersection reports that some value may satisfy both. Two complements always have one, unless their
// bounds contradict.
func (r Requirement) HasIntersection(o Requirement) bool {
	if max(r.gte, o.gte) > min(r.lte, o.lte) {
		return false
	}
	if r.complement && o.complement {
		return true
	}
	if r.complement {
		r, o = o, r
	}
	return slices.ContainsFunc(r.values, func(v string) bool { return o.Has(v) && r.inBounds(v) })
}

// Equal reports that both say the same of the same key.
func (r Requirement) Equal(o Requirement) bool {
	return r.key == o.key && r.complement == o.complement && r.required == o.required && r.gte == o.gte && r.lte == o.lte &&
		r.minValues == o.minValues && slices.Equal(r.values, o.values)
}

// appendKey writes all of r, parts divided by control characters.
func (r *Requirement) appendKey(b []byte) []byte {
	b = append(b, r.key...)
	if r.complement {
		b = append(b, 1)
	}
	if r.required {
		b = append(b, 6)
	}
	for _, v := range r.values {
		b = append(append(b, 2), v...)
	}
	if r.gte != math.MinInt64 {
		b = strconv.AppendInt(append(b, 3), r.gte, 10)
	}
	if r.lte != math.MaxInt64 {
		b = strconv.AppendInt(append(b, 4), r.lte, 10)
	}
	if r.minValues > 0 {
		b = strconv.AppendInt(append(b, 5), int64(r.minValues), 10)
	}
	return append(b, 0)
}

// shownMax is how many values a text shows before "and N others".
const shownMax = 5

// String is the form users see in events: "zone In [a b]", then bounds and minValues.
func (r Requirement) String() string {
	var b strings.Builder
	fmt.Fprintf(&b, "%s %s", r.key, r.Operator())
	if len(r.values) > 0 {
		shown := r.values
		if n := len(shown) - shownMax; n > 0 {
			shown = append(slices.Clone(shown[:shownMax]), fmt.Sprintf("and %d others", n))
		}
		fmt.Fprintf(&b, " %s", shown)
	}
	if r.gte != math.MinInt64 {
		fmt.Fprintf(&b, " >=%d", r.gte)
	}
	if r.lte != math.MaxInt64 {
		fmt.Fprintf(&b, " <=%d", r.lte)
	}
	if r.minValues > 0 {
		fmt.Fprintf(&b, " minValues %d", r.minValues)
	}
	return b.String()
}

// Entries returns r as API requirements: usually one; one per bound and one for excluded values otherwise,
// and Exists beside NotIn if the label must be there. What is Impossible reads as DoesNotExist.
// minValues stands on the first.
func (r Requirement) Entries() []karpv1.NodeSelectorRequirementWithMinValues {
	var entries []karpv1.NodeSelectorRequirementWithMinValues
	add := func(op corev1.NodeSelectorOperator, values ...string) {
		entries = append(entries, karpv1.NodeSelectorRequirementWithMinValues{Key: r.key, Operator: op, Values: values})
	}
	if r.gte != math.MinInt64 {
		add(OpGte, strconv.FormatInt(r.gte, 10))
	}
	if r.lte != math.MaxInt64 {
		add(OpLte, strconv.FormatInt(r.lte, 10))
	}
	if len(entries) == 0 || len(r.values) > 0 {
		add(r.Operator(), slices.Clone(r.values)...)
	}
	if r.required && len(entries) == 1 && entries[0].Operator == corev1.NodeSelectorOpNotIn {
		add(corev1.NodeSelectorOpExists)
	}
	if r.minValues > 0 {
		n := r.minValues
		entries[0].MinValues = &n
	}
	return entries
}

// ExactEntries are Entries, or of a requirement that no node can meet two that contradict each other.
func (r Requirement) ExactEntries() []karpv1.NodeSelectorRequirementWithMinValues {
	if !r.Impossible() {
		return r.Entries()
	}
	return []karpv1.NodeSelectorRequirementWithMinValues{
		{Key: r.key, Operator: corev1.NodeSelectorOpExists}, {Key: r.key, Operator: corev1.NodeSelectorOpDoesNotExist},
	}
}
