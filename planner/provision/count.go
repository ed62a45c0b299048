package provision

import (
	"slices"

	"millwright/planner/topology"
	"millwright/planner/world"
)

// countRunning counts the pods that run on the nodes.
func (s *solver) countRunning() {
	inRun := make(map[*world.Pod]bool, len(s.items))
	for _, it := range s.items {
		if it.pod.NodeName != "" {
			inRun[it.pod] = true
		}
	}
	space := s.compiler.topologies.space
	for _, b := range s.bins {
		if b.node == nil {
			continue
		}
		passes := map[int]bool{}
		for _, p := range b.node.Pods {
			if !p.Active() || inRun[p] {
				continue
			}
			r := s.ownersOfFrozen(p)
			if !r.matched {
				r.counted, r.matched = space.Matching(p.Class.Labels, p.Namespace), true
			}
			s.countOn(b, r.counted, passes, 1)
			s.countOn(b, r.owned, passes, 1)
		}
	}
}

// uncountPods takes the pods that run on a node out of the counts.
func (s *solver) uncountPods(b *bin) {
	passes := map[int]bool{}
	for _, p := range b.node.Pods {
		if r := s.running[classKey{p.Class, p.Namespace, ""}]; r != nil && p.Active() {
			s.countOn(b, r.counted, passes, -1)
			s.countOn(b, r.owned, passes, -1)
		}
	}
}

// ownersOfFrozen is ownersOf once no group may be added: a class without required anti-affinity owns none.
func (s *solver) ownersOfFrozen(p *world.Pod) *runningClass {
	key := classKey{p.Class, p.Namespace, ""}
	r := s.running[key]
	if r == nil {
		r = &runningClass{}
		s.running[key] = r
	}
	return r
}

func (s *solver) countOn(b *bin, groups []*topology.Group, passes map[int]bool, n int32) {
	for _, g := range groups {
		pass, known := passes[g.Filter]
		if !known {
			pass = s.compiler.topologies.filters[g.Filter].node(b.nodeLabels(), b.node.Taints)
			passes[g.Filter] = pass
		}
		if !pass {
			continue
		}
		if g.Hostname() {
			s.count(b, g, b.index, n)
		} else if v, ok := b.nodeLabels()[g.Domains.Key]; ok {
			s.count(b, g, g.Domains.Index(v), n)
		}
	}
}

// record counts n pods of a class that b got, or a fixed one loses.
func (s *solver) record(b *bin, k *class, n int32) {
	for _, g := range k.topology.counted {
		s.recordIn(b, g, n)
	}
	for _, g := range k.topology.owned {
		s.recordIn(b, g, n)
	}
}

func (s *solver) recordIn(b *bin, g *topology.Group, n int32) {
	if !s.filterPasses(b, g.Filter) {
		return
	}
	if g.Hostname() {
		s.count(b, g, b.index, n)
		return
	}
	m := s.domainsOf(b, g.Domains)
	if isEmpty(m) {
		return // without the key, the node is in no domain
	}
	if i, single := m.Single(); single && !b.mayLack(g.Domains) {
		s.count(b, g, i, n)
		return
	}
	if g.Possible() {
		for i := range g.Domains.Len() {
			if m.Has(i) {
				s.count(b, g, i, n)
			}
		}
		return
	}
	if b.uncounted == nil {
		b.uncounted = map[*topology.Group]int32{}
	}
	b.uncounted[g] += n
	g.Elusive = true
}

// settle counts what could not be counted before the claim's domain became certain.
func (s *solver) settle(b *bin) {
	if len(b.uncounted) == 0 {
		return
	}
	for _, g := range s.compiler.topologies.space.Groups() {
		n, waits := b.uncounted[g]
		if !waits {
			continue
		}
		if i, single := s.domainsOf(b, g.Domains).Single(); single && !b.mayLack(g.Domains) {
			s.count(b, g, i, n)
			delete(b.uncounted, g)
		}
	}
}

func (s *solver) filterPasses(b *bin, id int) bool {
	f := &s.compiler.topologies.filters[id]
	switch {
	case id == 0:
		return true
	case b.node != nil:
		return f.node(b.nodeLabels(), b.node.Taints)
	case b.planned != nil:
		return f.claim(b.planned.set, b.planned.claim.Planned.Taints)
	}
	return f.claim(b.open.state.set, b.open.template.taints())
}

// domainsOf are the domains of a key a bin's pods may end up in.
func (s *solver) domainsOf(b *bin, d *topology.Domains) topology.Mask {
	switch {
	case b.open != nil:
		return b.open.state.domains(d)
	case b.node != nil:
		m := d.NewMask()
		if i := d.Index(b.nodeLabels()[d.Key]); i >= 0 {
			m.Add(i)
		}
		return m
	}
	m := d.NewMask()
	if r, ok := b.planned.set.Lookup(d.Key); ok && !r.Complement() {
		for _, v := range r.Values() {
			if i := d.Index(v); i >= 0 {
				m.Add(i)
			}
		}
		return m
	}
	for i := range d.Len() {
		if slices.ContainsFunc(b.planned.types, func(t instanceType) bool {
			own, ok := t.Requirements.Lookup(d.Key)
			return ok && own.Has(d.Name(i))
		}) {
			m.Add(i)
		}
	}
	return m
}

// domains are those a claim in this state may have.
func (n *state) domains(d *topology.Domains) topology.Mask {
	if m, ok := n.masks[d]; ok {
		return m
	}
	m := d.NewMask()
	t := n.template
	r, defined := n.set.Lookup(d.Key)
	known := t.catalog.Knows(d.Key)
	for i := range d.Len() {
		v := d.Name(i)
		switch {
		case defined && !r.Has(v):
		case known:
			if having := t.catalog.Having(d.Key, v); having != nil && having.Meets(n.usable) {
				m.Add(i)
			}
		case defined && !r.Complement() && t.base.Has(d.Key):
			m.Add(i)
		}
	}
	if n.masks == nil {
		n.masks = map[*topology.Domains]topology.Mask{}
	}
	n.masks[d] = m
	return m
}

// mayLack reports that some nodes of claims in this state would not have the key: of one that the catalogue knows, those of types that
// do not list any value.
func (n *state) mayLack(d *topology.Domains) bool {
	if lack, ok := n.lack[d]; ok {
		return lack
	}
	lack := false
	if c := n.template.catalog; c.Knows(d.Key) {
		rest := n.usable.Clone()
		for _, v := range c.Values(d.Key) {
			rest.Subtract(c.Having(d.Key, v))
		}
		lack = rest.Any()
	}
	if n.lack == nil {
		n.lack = map[*topology.Domains]bool{}
	}
	n.lack[d] = lack
	return lack
}

// mayLack is mayLack of a claim that is being built or planned; nodes are as they are.
func (b *bin) mayLack(d *topology.Domains) bool {
	switch {
	case b.open != nil:
		return b.open.state.mayLack(d)
	case b.planned != nil:
		if r, ok := b.planned.set.Lookup(d.Key); ok && !r.Complement() {
			return false
		}
		return slices.ContainsFunc(b.planned.types, func(t instanceType) bool { return len(t.Requirements.Get(d.Key).Values()) == 0 })
	}
	return false
}

// counted is one change of a group's counts.
type counted struct {
	group *topology.Group
	at    int
	n     int32
}

// uncount takes back all that b's pods counted; recount counts it again.
func (b *bin) uncount() {
	for _, r := range b.records {
		r.group.Record(r.at, -r.n)
	}
}

func (b *bin) recount() {
	for _, r := range b.records {
		r.group.Record(r.at, r.n)
	}
}
