package requirement

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"

	karpv1 "millwright/api/karpenter/v1"
)

// Set is a conjunction of requirements, one per key. The zero value demands nothing.
type Set struct {
	reqs []Requirement // sorted by key
	// further holds the requirements on further keys; see Layered. Most Sets have none.
	further *Set
}

// Layered returns all requirements of two Sets that share no key. It keeps both as they are, so that Sets
// that differ in only a few requirements share the others.
func Layered(most Set, few *Set) Set {
	if most.further != nil || few.further != nil {
		return most.Add(few.flat()...)
	}
	return Set{most.reqs, few}
}

// few are the requirements on further keys.
func (s *Set) few() []Requirement {
	if s.further == nil {
		return nil
	}
	return s.further.reqs
}

// Split returns the requirements on all keys except those given, and the requirements on those.
func (s Set) Split(keys ...string) (others, on Set) {
	for _, r := range s.flat() {
		to := &others
		if slices.Contains(keys, r.key) {
			to = &on
		}
		to.reqs = append(to.reqs, r)
	}
	return Set{reqs: slices.Clone(others.reqs)}, Set{reqs: slices.Clone(on.reqs)} // clipped to what they need
}

// flat lists all requirements by key.
func (s Set) flat() []Requirement {
	rest := s.few()
	if len(rest) == 0 {
		return s.reqs
	}
	all := make([]Requirement, 0, len(s.reqs)+len(rest))
	for _, r := range s.reqs {
		for len(rest) > 0 && rest[0].key < r.key {
			all, rest = append(all, rest[0]), rest[1:]
		}
		all = append(all, r)
	}
	return append(all, rest...)
}

// NewSet intersects the requirements per key.
func NewSet(reqs ...Requirement) Set { return Set{}.Add(reqs...) }

// FromLabels demands each label's value.
func FromLabels(labels map[string]string) Set {
	reqs := make([]Requirement, 0, len(labels))
	for _, k := range slices.Sorted(maps.Keys(labels)) {
		reqs = append(reqs, In(k, labels[k]))
	}
	return NewSet(reqs...)
}

// FromNodeSelector demands the labels of a pod's nodeSelector and all expressions of all terms given.
// matchFields are ignored.
func FromNodeSelector(nodeSelector map[string]string, terms ...corev1.NodeSelectorTerm) Set {
	s := FromLabels(nodeSelector)
	for _, t := range terms {
		s = s.addExpressions(t.MatchExpressions)
	}
	return s
}

// FromExpressions demands all expressions.
func FromExpressions(expressions []corev1.NodeSelectorRequirement) Set {
	return Set{}.addExpressions(expressions)
}

func (s Set) addExpressions(expressions []corev1.NodeSelectorRequirement) Set {
	for _, e := range expressions {
		s = s.Add(New(e.Key, e.Operator, e.Values...))
	}
	return s
}

// FromClaim converts the requirements of a NodePool, NodeClaim or NodeOverlay. The error names the first
// entry that Validate refuses; the Set nevertheless holds all of them, and such an entry allows no value.
func FromClaim(entries []karpv1.NodeSelectorRequirementWithMinValues) (Set, error) {
	var s Set
	var first error
	for _, e := range entries {
		if err := Validate(e); err != nil && first == nil {
			first = err
		}
		r := New(e.Key, e.Operator, e.Values...)
		if e.MinValues != nil {
			r = r.WithMinValues(*e.MinValues)
		}
		s = s.Add(r)
	}
	return s, first
}

// Add returns s narrowed by reqs.
func (s Set) Add(reqs ...Requirement) Set {
	if len(reqs) == 0 {
		return s
	}
	out := slices.Clone(s.flat())
	for _, r := range reqs {
		i, found := find(out, r.key)
		if found {
			out[i] = out[i].Intersection(r)
		} else {
			out = slices.Insert(out, i, r)
		}
	}
	return Set{reqs: out}
}

// Intersection returns s narrowed by o.
func (s Set) Intersection(o Set) Set {
	if s.Len() == 0 {
		return o
	}
	return s.Add(o.flat()...)
}

// Replace returns s with the requirement on r's key replaced, not intersected.
func (s Set) Replace(r Requirement) Set { return s.Without(r.key).Add(r) }

// Without returns s without the given keys.
func (s Set) Without(keys ...string) Set {
	return Set{reqs: slices.DeleteFunc(slices.Clone(s.flat()), func(r Requirement) bool { return slices.Contains(keys, r.key) })}
}

func find(reqs []Requirement, key string) (int, bool) {
	return slices.BinarySearchFunc(reqs, key, func(r Requirement, k string) int { return cmp.Compare(r.key, k) })
}

// Lookup returns the requirement on key, if s has one.
func (s Set) Lookup(key string) (Requirement, bool) {
	if r := s.at(key); r != nil {
		return *r, true
	}
	return Requirement{}, false
}

// at is the requirement on key; nil if there is none.
func (s *Set) at(key string) *Requirement {
	if i, ok := find(s.reqs, key); ok {
		return &s.reqs[i]
	}
	if few := s.few(); len(few) > 0 {
		if i, ok := find(few, key); ok {
			return &few[i]
		}
	}
	return nil
}

// Get returns the requirement on key; Exists if s has none.
func (s Set) Get(key string) Requirement {
	if r, ok := s.Lookup(key); ok {
		return r
	}
	return Exists(key)
}

// Has reports that s has a requirement on key.
func (s Set) Has(key string) bool {
	return s.at(key) != nil
}

// Requirements are sorted by key and may be shared.
func (s Set) Requirements() []Requirement { return s.flat() }

// Len is the number of keys.
func (s Set) Len() int { return len(s.reqs) + len(s.few()) }

// Keys are sorted.
func (s Set) Keys() Keys {
	keys := make(Keys, s.Len())
	for i, r := range s.flat() {
		keys[i] = r.key
	}
	return keys
}

// HasMinValues reports that some requirement sets minValues.
func (s Set) HasMinValues() bool {
	return slices.ContainsFunc(s.flat(), func(r Requirement) bool { return r.minValues > 0 })
}

// Labels returns the keys that can have only one value.
func (s Set) Labels() map[string]string {
	labels := map[string]string{}
	for _, r := range s.flat() {
		if v, ok := r.Single(); ok {
			labels[r.key] = v
		}
	}
	return labels
}

// Equal reports that both demand the same.
func (s Set) Equal(o Set) bool {
	return s.Same(o) || slices.EqualFunc(s.flat(), o.flat(), Requirement.Equal)
}

// Same reports that both are the same shared Set. Sets for which it is false may still be Equal.
func (s Set) Same(o Set) bool {
	return same(s.reqs, o.reqs) && same(s.few(), o.few())
}

func same(a, b []Requirement) bool { return len(a) == len(b) && (len(a) == 0 || &a[0] == &b[0]) }

// Interned returns s with its lists of values replaced by the equal ones that intern returns, to save memory.
func (s Set) Interned(intern func([]string) []string) Set {
	out := slices.Clone(s.flat())
	for i := range out {
		if len(out[i].values) > 0 {
			out[i].values = intern(out[i].values)
		}
	}
	return Set{reqs: slices.Clip(out)}
}

// Impossible reports that no node can satisfy s.
func (s Set) Impossible() bool { return slices.ContainsFunc(s.flat(), Requirement.Impossible) }

// Satisfiable reports that two requirements on one key can hold together: some value passes both, or a
// node without the label does.
func Satisfiable(a, b Requirement) bool {
	return a.HasIntersection(b) || a.Negative() && b.Negative()
}

// IntersectsSet reports whether every shared key can be satisfied; see Intersects for the reasons.
func (s Set) IntersectsSet(o Set) bool {
	a, b := s.few(), o.few()
	return eachShared(s.reqs, o.reqs, Satisfiable) && eachShared(a, o.reqs, Satisfiable) &&
		eachShared(s.reqs, b, Satisfiable) && eachShared(a, b, Satisfiable)
}

// eachShared walks both sorted lists until f refuses a shared key.
func eachShared(a, b []Requirement, f func(a, b Requirement) bool) bool {
	for i, j := 0, 0; i < len(a) && j < len(b); {
		switch c := cmp.Compare(a[i].key, b[j].key); {
		case c < 0:
			i++
		case c > 0:
			j++
		default:
			if !f(a[i], b[j]) {
				return false
			}
			i, j = i+1, j+1
		}
	}
	return true
}

// Intersects returns nil if every key that both have can be satisfied, else an error per key that cannot.
func (s Set) Intersects(o Set) error {
	var e Errors
	eachShared(s.flat(), o.flat(), func(a, b Requirement) bool {
		if !Satisfiable(a, b) {
			e = append(e, fmt.Errorf("key %s, %s not in %s", a.key, b, a))
		}
		return true
	})
	return e.orNil()
}

// Only returns the requirements of s on keys that o has.
func (s Set) Only(o Set) Set {
	var reqs []Requirement
	for _, r := range o.flat() {
		if own := s.at(r.key); own != nil {
			reqs = append(reqs, *own)
		}
	}
	return Set{reqs: reqs}
}

// CompatibleSet is Compatible without the reasons.
func (s Set) CompatibleSet(o Set, allowUndefined WellKnown) bool {
	reqs := o.flat()
	for i := range reqs {
		if r := &reqs[i]; r.Impossible() || !r.Negative() && !s.Has(r.key) && !allowUndefined.Has(r.key) {
			return false
		}
	}
	return s.IntersectsSet(o)
}

// Compatible returns nil if s, which describes a node or a template, can satisfy o: every key of o that s
// does not define is in allowUndefined or negative, and what both define Intersects.
func (s Set) Compatible(o Set, allowUndefined WellKnown) error {
	if s.CompatibleSet(o, allowUndefined) {
		return nil
	}
	var e Errors
	for _, r := range o.flat() {
		if r.Impossible() && (!s.Has(r.key) || Satisfiable(s.Get(r.key), r)) {
			e = append(e, fmt.Errorf("key %s, %s not in %s", r.key, r, s.Get(r.key)))
			continue
		}
		if !r.Negative() && !s.Has(r.key) && !allowUndefined.Has(r.key) {
			e = append(e, fmt.Errorf("label %q does not have known values%s", r.key, s.hint(r.key, allowUndefined)))
		}
	}
	if err := s.Intersects(o); err != nil {
		e = append(e, err)
	}
	return e.orNil()
}

// hint names a known key that key may be a misspelling of: preferably one with the same name, otherwise one
// that contains it.
func (s Set) hint(key string, known WellKnown) string {
	name := key[strings.LastIndex(key, "/")+1:]
	near := []func(k string) bool{
		func(k string) bool { return k[strings.LastIndex(k, "/")+1:] == name },
		func(k string) bool { return strings.Contains(k, key) || strings.HasSuffix(k, name) },
	}
	for _, is := range near {
		for _, k := range slices.Concat(known, s.Keys()) {
			if name != "" && is(k) {
				return fmt.Sprintf(" (typo of %q?)", k)
			}
		}
	}
	return ""
}

// MatchesLabels reports that a node with these labels satisfies s: nothing undefined is allowed.
func (s Set) MatchesLabels(labels map[string]string) bool {
	reqs := s.flat()
	for i := range reqs {
		r := &reqs[i]
		v, ok := labels[r.key]
		if !ok {
			v, ok = aliased(labels, r.key)
		}
		if ok && !r.Has(v) || !ok && !r.Negative() {
			return false
		}
	}
	return true
}

func aliased(labels map[string]string, key string) (string, bool) {
	for _, old := range aliasesOf[key] {
		if v, ok := labels[old]; ok {
			return v, true
		}
	}
	return "", false
}

// aliasesOf inverts aliases; the older names of a key are sorted.
var aliasesOf = func() map[string][]string {
	inv := map[string][]string{}
	for _, old := range slices.Sorted(maps.Keys(aliases)) {
		inv[aliases[old]] = append(inv[aliases[old]], old)
	}
	return inv
}()

// Entries returns s as API requirements, sorted by key.
func (s Set) Entries() []karpv1.NodeSelectorRequirementWithMinValues {
	entries := make([]karpv1.NodeSelectorRequirementWithMinValues, 0, s.Len())
	for _, r := range s.flat() {
		entries = append(entries, r.Entries()...)
	}
	return entries
}

// ExactEntries are Entries of which FromClaim makes an equal Set: a requirement that no node can meet, for
// which the API has no operator, is said by two that contradict each other.
func (s Set) ExactEntries() []karpv1.NodeSelectorRequirementWithMinValues {
	entries := make([]karpv1.NodeSelectorRequirementWithMinValues, 0, s.Len())
	for _, r := range s.flat() {
		entries = append(entries, r.ExactEntries()...)
	}
	return entries
}

// String joins the requirements, sorted; the hostname, which is only a placeholder, is omitted.
func (s Set) String() string {
	var texts []string
	for _, r := range s.flat() {
		if r.key != corev1.LabelHostname {
			texts = append(texts, r.String())
		}
	}
	return strings.Join(texts, ", ")
}

// Key is a text that two Sets have in common exactly if they are Equal.
func (s Set) Key() string {
	b := make([]byte, 0, 64*s.Len())
	reqs := s.flat()
	for i := range reqs {
		b = reqs[i].appendKey(b)
	}
	return string(b)
}

// Errors joins with "; ".
type Errors []error

func (e Errors) Error() string {
	texts := make([]string, len(e))
	for i, err := range e {
		texts[i] = err.Error()
	}
	return strings.Join(texts, "; ")
}

// Unwrap serves errors.Is.
func (e Errors) Unwrap() []error { return e }

func (e Errors) orNil() error {
	switch len(e) {
	case 0:
		return nil
	case 1:
		return e[0]
	}
	return e
}
