package topology

import (
	"slices"
	"strings"

	"millwright/planner/bitset"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/labels"
)

// Domains of one key other than the hostname, sorted and numbered.
type Domains struct {
	Key    string
	names  []string
	frozen bool
}

// Space holds the keys and groups of one plan. First groups and domains are added, then Freeze numbers the
// domains, then pods are counted.
type Space struct {
	keys   map[string]*Domains
	groups map[string]*Group
	list   []*Group
	// matching finds the groups that count a pod because of its labels, owned the groups whose owners keep it
	// away.
	matching, owned index
	frozen          bool
	// Exact: what matches nothing and what matches everything do not count as one. It is set before the first
	// Add, and false by the rules before Revision8.
	Exact bool
}

// index finds groups by the value of a label that their selector demands; rest are those that demand none.
type index struct {
	byLabel map[label][]*Group
	rest    []*Group
}

type label struct{ key, value string }

// NewSpace returns an empty one.
func NewSpace() *Space {
	return &Space{
		keys: map[string]*Domains{}, groups: map[string]*Group{},
		matching: index{byLabel: map[label][]*Group{}}, owned: index{byLabel: map[label][]*Group{}},
	}
}

// Elsewhere is, for the hostname, a place where no pod can be put: what is recorded there counts in the total
// alone.
const Elsewhere = -1

// Group counts pods per domain.
type Group struct {
	term Term
	// Filter is the caller's number for the set of nodes that count; 0: all.
	Filter int
	// Domains is nil for the hostname.
	Domains *Domains
	// owners: pods are counted because they have the term, not because they match it.
	owners bool
	// possible: a pod counts in each domain that it may end up in.
	possible bool
	// counts is by domain or, for the hostname, by place starting at first, a multiple of 64; taken are the
	// places with a count above 0, from the same start.
	counts []int32
	first  int
	taken  bitset.Set
	total  int64
	// Elusive: some pod could not be counted at first, because its domain was not certain.
	Elusive bool
	// Version rises with each change of the counts.
	Version int
}

// Add returns the group a term counts in. filter describes in words which nodes count, filterID numbers them.
// For Inverse terms the owners are counted.
func (s *Space) Add(t Term, filter string, filterID int) *Group {
	class := "c"
	switch t.Kind {
	case AntiAffinity:
		class = "p"
	case Inverse:
		class = "o"
	}
	id := class + t.identity(filter, s.Exact)
	if g, ok := s.groups[id]; ok {
		return g
	}
	g := &Group{term: t, Filter: filterID, owners: t.Kind == Inverse, possible: t.Kind == AntiAffinity || t.Kind == Inverse}
	if t.Key != corev1.LabelHostname {
		g.Domains = s.key(t.Key)
	}
	s.groups[id] = g
	s.list = append(s.list, g)
	if g.owners {
		s.owned.addGroup(g)
	} else {
		s.matching.addGroup(g)
	}
	return g
}

func (x *index) addGroup(g *Group) {
	reqs, selectable := g.term.Selector.Requirements()
	if !selectable {
		return
	}
	for _, r := range reqs {
		if v := r.Values(); len(v) == 1 && r.Operator() != "notin" && r.Operator() != "!=" && r.Operator() != "gt" && r.Operator() != "lt" {
			l := label{r.Key(), v.UnsortedList()[0]}
			x.byLabel[l] = append(x.byLabel[l], g)
			return
		}
	}
	x.rest = append(x.rest, g)
}

func (s *Space) key(name string) *Domains {
	d := s.keys[name]
	if d == nil {
		d = &Domains{Key: name}
		s.keys[name] = d
	}
	return d
}

// Keys returns the keys that have groups, without the hostname, sorted.
func (s *Space) Keys() []*Domains {
	var list []*Domains
	for _, d := range s.keys {
		list = append(list, d)
	}
	slices.SortFunc(list, func(a, b *Domains) int { return strings.Compare(a.Key, b.Key) })
	return list
}

// Groups in the order they were added.
func (s *Space) Groups() []*Group { return s.list }

// AddDomain makes a domain known; before Freeze.
func (d *Domains) AddDomain(name string) { d.names = append(d.names, name) }

// Freeze numbers the domains by name.
func (s *Space) Freeze() {
	for _, d := range s.Keys() {
		slices.Sort(d.names)
		d.names = slices.Compact(d.names)
		d.frozen = true
	}
	for _, g := range s.list {
		if g.Domains != nil {
			g.counts = make([]int32, len(g.Domains.names))
		}
	}
	s.frozen = true
}

// Len is the number of domains, Name the i-th.
func (d *Domains) Len() int          { return len(d.names) }
func (d *Domains) Name(i int) string { return d.names[i] }

// Index returns the number of a domain, -1 if it is unknown.
func (d *Domains) Index(name string) int {
	if i, ok := slices.BinarySearch(d.names, name); ok {
		return i
	}
	return -1
}

// NewMask returns an empty set of domains of d, by number.
func (d *Domains) NewMask() bitset.Set { return bitset.New(len(d.names)) }

// Matching returns the groups that count a pod with these labels.
func (s *Space) Matching(podLabels map[string]string, namespace string) []*Group {
	return s.matching.findGroups(podLabels, namespace)
}

// Inverses returns the groups of owners that keep away a pod with these labels.
func (s *Space) Inverses(podLabels map[string]string, namespace string) []*Group {
	return s.owned.findGroups(podLabels, namespace)
}

// findGroups returns the groups whose term matches the labels: first those that demand no particular label,
// then by label, each in the order they were added.
func (x *index) findGroups(podLabels map[string]string, namespace string) []*Group {
	if len(x.rest)+len(x.byLabel) == 0 {
		return nil
	}
	var found []*Group
	set := labels.Set(podLabels)
	check := func(list []*Group) {
		for _, g := range list {
			if g.term.Matches(set, namespace) {
				found = append(found, g)
			}
		}
	}
	check(x.rest)
	keys := make([]string, 0, len(podLabels))
	for k := range podLabels {
		keys = append(keys, k)
	}
	slices.Sort(keys)
	for _, k := range keys {
		check(x.byLabel[label{k, podLabels[k]}])
	}
	return found
}

// Term that the group counts; of equal ones the first.
func (g *Group) Term() Term { return g.term }

// Hostname reports that the group counts per place.
func (g *Group) Hostname() bool { return g.Domains == nil }

// Possible reports that a pod counts in each domain it may end up in, rather than once it is certain.
func (g *Group) Possible() bool { return g.possible }

// Count of a domain or, for the hostname, of a place.
func (g *Group) Count(i int) int32 {
	if i -= g.first; i < 0 || i >= len(g.counts) {
		return 0
	}
	return g.counts[i]
}

// Taken is a word of the set of places with a count above 0, for the hostname: bit i of word w is place
// 64w+i.
func (g *Group) Taken(w int) uint64 {
	if w -= g.first / 64; w < 0 || w >= len(g.taken) {
		return 0
	}
	return g.taken[w]
}

// Total of all counts.
func (g *Group) Total() int64 { return g.total }

// Record adds n pods to a domain or place. Unknown domains, which are negative, count nothing.
func (g *Group) Record(i int, n int32) {
	if i < 0 && g.Domains != nil {
		return
	}
	g.total += int64(n)
	g.Version++
	if g.Domains != nil {
		g.counts[i] += n
		return
	}
	if i == Elsewhere {
		return
	}
	g.reach(i)
	i -= g.first
	g.counts[i] += n
	if g.counts[i] == 0 {
		g.taken.Remove(i)
	} else {
		g.taken.Add(i)
	}
}

// reach makes room for place i. Places of one group lie close together but far from 0: groups are many and
// most count few pods.
func (g *Group) reach(i int) {
	if len(g.counts) == 0 {
		g.first = i &^ 63
	}
	if lack := (g.first - i + 63) / 64; lack > 0 {
		g.first -= lack * 64
		g.counts = slices.Insert(g.counts, 0, make([]int32, lack*64)...)
		g.taken = slices.Insert(g.taken, 0, make([]uint64, lack)...)
	}
	if lack := (i-g.first)/64 + 1 - len(g.taken); lack > 0 {
		g.counts = append(g.counts, make([]int32, lack*64)...)
		g.taken = append(g.taken, make([]uint64, lack)...)
	}
}
