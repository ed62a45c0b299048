package provision

import (
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"

	"millwright/planner/requirement"
	"millwright/planner/topology"
	"millwright/planner/world"
)

// classTopology is what spread and affinity say of a class.
type classTopology struct {
	// hard constraints hold at every level; soft ones are given up from the front of each list, in the order
	// affinity, anti-affinity, spread.
	hard                               []*topology.Constraint
	softAffinity, softAnti, softSpread []*topology.Constraint
	// counted: groups that count the class's pods. owned: groups of its required anti-affinity.
	counted, owned []*topology.Group
}

// all lists every constraint.
func (c *classTopology) all() []*topology.Constraint {
	return slices.Concat(c.hard, c.softAffinity, c.softAnti, c.softSpread)
}

// nodeFilter says which nodes count for a spread constraint.
type nodeFilter struct {
	// sets: any one must match the node's labels; nil if all nodes count.
	sets []requirement.Set
	// tolerations count only if honorTaints.
	tolerations []corev1.Toleration
	honorTaints bool
}

// topologies gathers groups while classes are compiled.
type topologies struct {
	space      *topology.Space
	filters    []nodeFilter // the first lets every node pass
	filterIDs  map[string]int
	namespaces []topology.Namespace
	classes    []*class
}

func newTopologies(namespaces []topology.Namespace) *topologies {
	return &topologies{space: topology.NewSpace(), filters: make([]nodeFilter, 1), filterIDs: map[string]int{"": 0}, namespaces: namespaces}
}

// compile adds the groups of a class. soft says that preferences count.
func (tp *topologies) compile(k *class, soft bool) {
	tp.classes = append(tp.classes, k)
	for _, term := range topology.TermsOf(k.pod.Spec, k.pod.Labels, k.namespace, tp.namespaces) {
		if term.Soft && !soft {
			continue
		}
		filter, id := tp.filter(k, &term)
		c := &topology.Constraint{Kind: term.Kind, Term: term, Group: tp.space.Add(term, filter, id), Self: term.Matches(k.pod.Labels, k.namespace)}
		switch {
		case !term.Soft:
			k.topology.hard = append(k.topology.hard, c)
			if term.Kind == topology.AntiAffinity {
				term.Kind = topology.Inverse
				k.topology.owned = append(k.topology.owned, tp.space.Add(term, "", 0))
			}
		case term.Kind == topology.Spread:
			k.topology.softSpread = append(k.topology.softSpread, c)
		case term.Kind == topology.Affinity:
			k.topology.softAffinity = append(k.topology.softAffinity, c)
		default:
			k.topology.softAnti = append(k.topology.softAnti, c)
		}
	}
}

// filter returns the nodes that count for a spread term, in words and by number.
func (tp *topologies) filter(k *class, term *topology.Term) (string, int) {
	if term.Kind != topology.Spread || term.IgnoreAffinity && !term.HonorTaints {
		return "", 0
	}
	var f nodeFilter
	var name strings.Builder
	if !term.IgnoreAffinity {
		f.sets = k.strict
		for _, s := range f.sets {
			name.WriteString(s.Key() + "|")
		}
		if len(f.sets) == 1 && f.sets[0].Len() == 0 {
			f.sets = nil
			name.Reset()
		}
	}
	if term.HonorTaints {
		f.tolerations, f.honorTaints = k.pod.Spec.Tolerations, true
		name.WriteString("taints" + tolerationsText(f.tolerations))
	}
	id, known := tp.filterIDs[name.String()]
	if !known {
		id = len(tp.filters)
		tp.filters = append(tp.filters, f)
		tp.filterIDs[name.String()] = id
	}
	return name.String(), id
}

// node reports that a node counts.
func (f *nodeFilter) node(labels map[string]string, taints []corev1.Taint) bool {
	if f.honorTaints && untolerated(taints, f.tolerations, false) != nil {
		return false
	}
	return f.sets == nil || slices.ContainsFunc(f.sets, func(s requirement.Set) bool { return s.MatchesLabels(labels) })
}

// claim reports that nodes of a claim with these requirements may count.
func (f *nodeFilter) claim(set requirement.Set, taints []corev1.Taint) bool {
	if f.honorTaints && untolerated(taints, f.tolerations, false) != nil {
		return false
	}
	return f.sets == nil || slices.ContainsFunc(f.sets, func(s requirement.Set) bool { return set.CompatibleSet(s, requirement.AllKnown) })
}

// setUpTopology numbers the domains and counts the pods that run, once all classes are compiled.
func (s *solver) setUpTopology() {
	tp := s.compiler.topologies
	s.addOwners()
	if len(tp.space.Groups()) == 0 {
		return
	}
	for _, d := range tp.space.Keys() {
		s.addDomains(d)
	}
	tp.space.Freeze()
	for _, k := range tp.classes {
		s.finishTopology(k)
	}
	s.countRunning()
}

// addOwners adds the groups of required anti-affinity of pods that run.
func (s *solver) addOwners() {
	s.running = map[classKey]*runningClass{}
	flagged := map[*world.PodClass]bool{}
	for _, c := range s.in.classes {
		if a := c.Spec.Affinity; a != nil && a.PodAntiAffinity != nil && len(a.PodAntiAffinity.RequiredDuringSchedulingIgnoredDuringExecution) > 0 {
			flagged[c] = true
		}
	}
	if len(flagged) == 0 {
		return
	}
	for _, b := range s.bins {
		if b.node == nil {
			continue
		}
		for _, p := range b.node.Pods {
			if flagged[p.Class] && p.Active() {
				s.ownersOf(p)
			}
		}
	}
}

// runningClass is what a running pod's class means to the groups.
type runningClass struct {
	owned   []*topology.Group
	counted []*topology.Group
	matched bool
}

func (s *solver) ownersOf(p *world.Pod) *runningClass {
	key := classKey{p.Class, p.Namespace, ""}
	r := s.running[key]
	if r != nil {
		return r
	}
	r = &runningClass{}
	s.running[key] = r
	tp := s.compiler.topologies
	for _, term := range topology.TermsOf(p.Class.Spec, p.Class.Labels, p.Namespace, tp.namespaces) {
		if term.Kind == topology.AntiAffinity && !term.Soft {
			term.Kind = topology.Inverse
			r.owned = append(r.owned, tp.space.Add(term, "", 0))
		}
	}
	return r
}

// nodeLabels are a node's labels as in prepare.
func (b *bin) nodeLabels() map[string]string {
	if b.labels == nil {
		b.labels = nodeLabels(b.node)
	}
	return b.labels
}

// addDomains makes known what values a key has: those the pools can make, and those of nodes and claims.
func (s *solver) addDomains(d *topology.Domains) {
	for _, t := range s.templates {
		for _, v := range t.domainValues(d.Key) {
			d.AddDomain(v)
		}
	}
	for _, b := range s.bins {
		switch {
		case b.node != nil:
			if v, ok := b.nodeLabels()[d.Key]; ok {
				d.AddDomain(v)
			}
		case b.planned != nil:
			if r, ok := b.planned.set.Lookup(d.Key); ok && !r.Complement() {
				for _, v := range r.Values() {
					d.AddDomain(v)
				}
			}
		}
	}
}

// domainValues lists the values of key that claims of the pool can have. Availability does not count.
func (t *template) domainValues(key string) []string {
	r, defined := t.base.Lookup(key)
	if !t.catalog.Knows(key) {
		if !defined || r.Complement() {
			return nil
		}
		return r.Values()
	}
	matching := t.catalog.MatchingSet(t.base)
	var values []string
	for _, v := range t.catalog.Values(key) {
		if (!defined || r.Has(v)) && t.catalog.Having(key, v).Meets(matching) {
			values = append(values, v)
		}
	}
	return values
}

// finishTopology completes a class's constraints with what follows from all groups.
func (s *solver) finishTopology(k *class) {
	space := s.compiler.topologies.space
	k.topology.counted = space.Matching(k.pod.Labels, k.namespace)
	for _, c := range k.topology.all() {
		if !c.Group.Hostname() {
			c.Pod = s.podDomains(k, c)
		}
	}
	for _, g := range space.Inverses(k.pod.Labels, k.namespace) {
		c := &topology.Constraint{Kind: topology.Inverse, Group: g, Term: g.Term(), Self: slices.Contains(k.topology.owned, g)}
		if !g.Hostname() {
			c.Pod = s.podDomains(k, c)
		}
		k.topology.hard = append(k.topology.hard, c)
		for _, lv := range k.levels {
			lv.constraints = append(lv.constraints, c)
		}
	}
	k.apart = slices.ContainsFunc(k.topology.hard, func(c *topology.Constraint) bool { return c.Group.Hostname() && c.Kind != topology.Affinity })
	for _, lv := range k.levels {
		lv.splitByKey()
	}
}

// podDomains are the domains that exist for a class and that its own requirements allow.
func (s *solver) podDomains(k *class, c *topology.Constraint) topology.Mask {
	d := c.Group.Domains
	exist := s.existing(k, c)
	if s.in.simulated {
		exist.users = append(exist.users, c)
	}
	m := d.NewMask()
	for i := range d.Len() {
		if exist.mask.Has(i) && strictAllows(k.strict, d.Key, d.Name(i)) {
			m.Add(i)
		}
	}
	return m
}

// existKey is what the domains that exist for a class depend on.
type existKey struct {
	domains *topology.Domains
	filter  int
	// tolerations of the class count only if honor.
	honor       bool
	tolerations string
}

// existing are the domains that NodePools can make for some classes, and those of nodes and claims.
type existing struct {
	mask topology.Mask
	// by is how many NodePools, nodes and claims there are of each; users are the constraints that go by it, for trials.
	by    []int32
	users []*topology.Constraint
}

// existing are those of a class; shared.
func (s *solver) existing(k *class, c *topology.Constraint) *existing {
	d := c.Group.Domains
	key := existKey{domains: d, filter: c.Group.Filter, honor: c.Kind != topology.Spread || c.Term.HonorTaints}
	if key.honor {
		key.tolerations = tolerationsText(k.pod.Spec.Tolerations)
	}
	if x, ok := s.exist[key]; ok {
		return x
	}
	x := &existing{mask: d.NewMask(), by: make([]int32, d.Len())}
	add := func(v string) {
		if i := d.Index(v); i >= 0 {
			x.mask.Add(i)
			x.by[i]++
		}
	}
	for _, t := range s.templates {
		if key.honor && untolerated(t.taints(), k.pod.Spec.Tolerations, false) != nil {
			continue
		}
		for _, v := range t.domainValues(d.Key) {
			add(v)
		}
	}
	f := &s.compiler.topologies.filters[c.Group.Filter]
	for _, b := range s.bins {
		switch {
		case b.node != nil:
			if v, ok := b.nodeLabels()[d.Key]; ok && f.node(b.nodeLabels(), b.node.Taints) {
				add(v)
			}
		case b.planned != nil:
			if r, ok := b.planned.set.Lookup(d.Key); ok && !r.Complement() {
				for _, v := range r.Values() {
					add(v)
				}
			}
		}
	}
	if s.exist == nil {
		s.exist = map[existKey]*existing{}
	}
	s.exist[key] = x
	s.existKeys = append(s.existKeys, key)
	return x
}

func tolerationsText(list []corev1.Toleration) string {
	var b strings.Builder
	for i := range list {
		b.WriteString(list[i].String())
	}
	return b.String()
}

func strictAllows(strict []requirement.Set, key, value string) bool {
	return slices.ContainsFunc(strict, func(s requirement.Set) bool { return s.Get(key).Has(value) })
}

// placeAllows checks the hostname constraints of a level on place i.
func (lv *level) placeAllows(i int) (ok, lasting bool) {
	for _, c := range lv.byPlace {
		if ok, lasting := c.AllowsPlace(i); !ok {
			return false, lasting
		}
	}
	return true, false
}

// fixedAllows checks the other constraints on a bin whose domains do not change any more.
func (s *solver) fixedAllows(b *bin, lv *level) outcome {
	for i := range lv.byKey {
		m := s.domainsOf(b, lv.byKey[i].domains)
		at, single := m.Single()
		for _, c := range lv.byKey[i].constraints {
			switch c.Kind {
			case topology.AntiAffinity, topology.Inverse:
				for j := range lv.byKey[i].domains.Len() {
					if m.Has(j) && c.Group.Count(j) > 0 {
						if s.in.simulated {
							return notNow // such pods may leave the domain
						}
						return never
					}
				}
			default:
				if !single || b.mayLack(lv.byKey[i].domains) {
					return never
				}
				if allowed, _ := c.Allowed(); !allowed.Has(at) {
					return notNow
				}
			}
		}
	}
	return accepted
}

// brokenKept lists the pods whose hard constraints do not hold where their earlier verdict put them.
func (s *solver) brokenKept(kept []*item) map[*world.Pod]bool {
	var broken map[*world.Pod]bool
	for _, it := range kept {
		if slices.ContainsFunc(it.class.topology.hard, func(c *topology.Constraint) bool { return !s.holds(it.bin, c) }) {
			if broken == nil {
				broken = map[*world.Pod]bool{}
			}
			broken[it.pod] = true
		}
	}
	return broken
}

func (s *solver) holds(b *bin, c *topology.Constraint) bool {
	if c.Kind == topology.Inverse && b.planned != nil {
		return true
	}
	if c.Group.Hostname() {
		return c.Holds(b.index)
	}
	at, single := s.domainsOf(b, c.Group.Domains).Single()
	if !single {
		return true
	}
	return c.Holds(at)
}
