package demand

import (
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"

	"millwright/planner/bitset"
	"millwright/planner/catalog"
	"millwright/planner/options"
	"millwright/planner/requirement"
	"millwright/planner/topology"
)

// Keyed are the constraints of a level on one key.
type Keyed struct {
	Domains     *topology.Domains
	Constraints []*topology.Constraint
}

// splitByKey sorts a level's constraints by what they look at.
func (lv *Level) splitByKey() {
	lv.ByPlace, lv.ByKey, lv.Exclusive = nil, nil, nil
	for _, c := range lv.Constraints {
		if c.Group.Hostname() {
			lv.ByPlace = append(lv.ByPlace, c)
			if c.Exclusive() && !slices.Contains(lv.Exclusive, c.Group) {
				lv.Exclusive = append(lv.Exclusive, c.Group)
			}
			continue
		}
		i := slices.IndexFunc(lv.ByKey, func(k Keyed) bool { return k.Domains == c.Group.Domains })
		if i < 0 {
			i = len(lv.ByKey)
			lv.ByKey = append(lv.ByKey, Keyed{Domains: c.Group.Domains})
		}
		lv.ByKey[i].Constraints = append(lv.ByKey[i].Constraints, c)
	}
}

// classTopology is what spread and affinity say about a class.
type classTopology struct {
	// Hard constraints hold at every level; soft ones are given up from the front of each list, in the order
	// affinity, anti-affinity, spread.
	Hard                               []*topology.Constraint
	softAffinity, softAnti, softSpread []*topology.Constraint
	// Counted: groups that count the class's pods. owned: groups of its required anti-affinity.
	Counted, Owned []*topology.Group
}

// all lists every constraint.
func (c *classTopology) all() []*topology.Constraint {
	return slices.Concat(c.Hard, c.softAffinity, c.softAnti, c.softSpread)
}

// NodeFilter says which nodes count for a spread constraint.
type NodeFilter struct {
	// sets: any one must match the node's labels; nil if all nodes count.
	sets []requirement.Set
	// tolerations count only if honorTaints.
	tolerations []corev1.Toleration
	honorTaints bool
}

// topologies gathers groups while classes are compiled.
type topologies struct {
	Space      *topology.Space
	Filters    []NodeFilter // the first lets every node pass
	filterIDs  map[string]int
	Namespaces []topology.Namespace
	Classes    []*Class
	// together: what matches one term of required affinity counts only if it matches all of them.
	together bool
}

func newTopologies(namespaces []topology.Namespace, o *options.Options) *topologies {
	tp := &topologies{
		Space: topology.NewSpace(), Filters: make([]NodeFilter, 1), filterIDs: map[string]int{"": 0}, Namespaces: namespaces, together: o.Revision >= options.Revision7,
	}
	tp.Space.Exact = o.Revision >= options.Revision8
	return tp
}

// compile adds the groups of a class. soft says that preferences count.
func (tp *topologies) compile(k *Class, soft bool) {
	tp.Classes = append(tp.Classes, k)
	terms := topology.TermsOf(k.Pod.Spec, k.Pod.Labels, k.namespace, tp.Namespaces)
	if tp.together {
		topology.Together(terms)
	}
	for _, term := range terms {
		if term.Soft && !soft {
			continue
		}
		filter, id := tp.filter(k, &term)
		c := &topology.Constraint{Kind: term.Kind, Term: term, Group: tp.Space.Add(term, filter, id), Self: term.Matches(k.Pod.Labels, k.namespace)}
		switch {
		case !term.Soft:
			k.Topology.Hard = append(k.Topology.Hard, c)
			if term.Kind == topology.AntiAffinity {
				term.Kind = topology.Inverse
				k.Topology.Owned = append(k.Topology.Owned, tp.Space.Add(term, "", 0))
			}
		case term.Kind == topology.Spread:
			k.Topology.softSpread = append(k.Topology.softSpread, c)
		case term.Kind == topology.Affinity:
			k.Topology.softAffinity = append(k.Topology.softAffinity, c)
		default:
			k.Topology.softAnti = append(k.Topology.softAnti, c)
		}
	}
}

// filter returns the nodes that count for a spread term, in words and by number.
func (tp *topologies) filter(k *Class, term *topology.Term) (string, int) {
	if term.Kind != topology.Spread || term.IgnoreAffinity && !term.HonorTaints {
		return "", 0
	}
	var f NodeFilter
	var name strings.Builder
	if !term.IgnoreAffinity {
		f.sets = k.Strict
		for _, s := range f.sets {
			name.WriteString(s.Key() + "|")
		}
		if len(f.sets) == 1 && f.sets[0].Len() == 0 {
			f.sets = nil
			name.Reset()
		}
	}
	if term.HonorTaints {
		f.tolerations, f.honorTaints = k.Pod.Spec.Tolerations, true
		name.WriteString("taints" + TolerationsText(f.tolerations))
	}
	id, known := tp.filterIDs[name.String()]
	if !known {
		id = len(tp.Filters)
		tp.Filters = append(tp.Filters, f)
		tp.filterIDs[name.String()] = id
	}
	return name.String(), id
}

// Node reports that a node counts.
func (f *NodeFilter) Node(labels map[string]string, taints []corev1.Taint) bool {
	if f.honorTaints && Untolerated(taints, f.tolerations, false) != nil {
		return false
	}
	return f.sets == nil || slices.ContainsFunc(f.sets, func(s requirement.Set) bool { return s.MatchesLabels(labels) })
}

// Claim reports that nodes of a claim with these requirements may count.
func (f *NodeFilter) Claim(set requirement.Set, taints []corev1.Taint) bool {
	if f.honorTaints && Untolerated(taints, f.tolerations, false) != nil {
		return false
	}
	return f.sets == nil || slices.ContainsFunc(f.sets, func(s requirement.Set) bool { return set.CompatibleSet(s, requirement.AllKnown) })
}

// Template reports that a NodePool can make nodes that count and have a value of a key. Zones in which it has
// none of the instance types that the pods select are no domains to kube-scheduler, which counts just the
// domains of nodes that exist and that the pods select: if they were, they would stay empty for ever, and the
// pods would wait for them.
func (f *NodeFilter) Template(base requirement.Set, cat *catalog.Catalog, key, value string) bool {
	return f.sets == nil || slices.ContainsFunc(f.sets, func(s requirement.Set) bool {
		if !base.CompatibleSet(s, requirement.AllKnown) {
			return false
		}
		set := base.Intersection(s).Intersection(requirement.NewSet(requirement.In(key, value)))
		return !set.Impossible() && cat.MatchingSet(set).Any()
	})
}

// Complete completes a class's constraints with what follows from all groups, once the domains are frozen.
// domains are those that exist for a class and that its own requirements allow.
func (tp *topologies) Complete(k *Class, domains func(*Class, *topology.Constraint) bitset.Set) {
	space := tp.Space
	k.Topology.Counted = space.Matching(k.Pod.Labels, k.namespace)
	for _, c := range k.Topology.all() {
		if !c.Group.Hostname() {
			c.Pod = domains(k, c)
		}
	}
	for _, g := range space.Inverses(k.Pod.Labels, k.namespace) {
		c := &topology.Constraint{Kind: topology.Inverse, Group: g, Term: g.Term(), Self: slices.Contains(k.Topology.Owned, g)}
		if !g.Hostname() {
			c.Pod = domains(k, c)
		}
		k.Topology.Hard = append(k.Topology.Hard, c)
		for _, lv := range k.Levels {
			lv.Constraints = append(lv.Constraints, c)
		}
	}
	k.RepelsPeers = slices.ContainsFunc(k.Topology.Hard, func(c *topology.Constraint) bool { return c.Group.Hostname() && c.Kind != topology.Affinity })
	for _, lv := range k.Levels {
		lv.splitByKey()
	}
}

func TolerationsText(list []corev1.Toleration) string {
	var b strings.Builder
	for i := range list {
		b.WriteString(list[i].String())
	}
	return b.String()
}

func StrictAllows(strict []requirement.Set, key, value string) bool {
	return slices.ContainsFunc(strict, func(s requirement.Set) bool { return s.Get(key).Has(value) })
}

// PlaceAllows checks the hostname constraints of a level on place i.
func (lv *Level) PlaceAllows(i int) (ok, lasting bool) {
	for _, c := range lv.ByPlace {
		if ok, lasting := c.AllowsPlace(i); !ok {
			return false, lasting
		}
	}
	return true, false
}
