package place

import (
	"slices"

	"millwright/planner/provision/internal/demand"
	"millwright/planner/topology"
	"millwright/planner/world"
)

// countRunning counts the pods that run on the nodes, except for those that need a place, and those that stay
// on leaving nodes.
func (l *Layout) countRunning(inRun map[*world.Pod]bool) {
	for b, node := range l.Nodes() {
		l.countPods(b, node.State.Pods, func(p *world.Pod) bool { return inRun[p] }, 1)
	}
	for i, b := range l.leaving {
		l.countPods(b, l.in.Leaving[i].Pods, func(p *world.Pod) bool { return inRun[p] }, 1)
	}
}

// uncountPods removes the pods that run on a node from the counts, except for those that stay there.
func (l *Layout) uncountPods(b *Bin, node *Node) {
	l.countPods(b, node.State.Pods, l.in.stays, -1)
}

// countPods adds n to the counts for each pod of a node, except for some.
func (l *Layout) countPods(b *Bin, pods []*world.Pod, except func(*world.Pod) bool, n int32) {
	passes := map[int]bool{}
	for _, p := range pods {
		if !p.Active() || except(p) {
			continue
		}
		r := l.running.on(p, l.Compiler)
		l.countOn(b, r.counted, passes, n)
		l.countOn(b, r.owned, passes, n)
	}
}

// stays reports that a pod still counts on a node that was removed.
func (in *Input) stays(p *world.Pod) bool { return in.Stays != nil && in.Stays(p) }

// holdsDomain reports that pods which stay on a removed or leaving node count in a domain of a group.
func (l *Layout) holdsDomain(g *topology.Group, at int) bool {
	holds := func(b *Bin, pods []*world.Pod) bool {
		n := b.Node()
		return g.Domains.Index(n.labels()[g.Domains.Key]) == at && n.passes(&l.Compiler.Topologies.Filters[g.Filter]) &&
			slices.ContainsFunc(pods, func(p *world.Pod) bool {
				r := l.running.on(p, l.Compiler)
				return p.Active() && (slices.Contains(r.counted, g) || slices.Contains(r.owned, g))
			})
	}
	for i, b := range l.leaving {
		if holds(b, l.in.Leaving[i].Pods) {
			return true
		}
	}
	if l.in.Stays == nil {
		return false
	}
	for b, n := range l.Nodes() {
		if b.Gone && holds(b, slices.DeleteFunc(slices.Clone(n.State.Pods), func(p *world.Pod) bool { return !l.in.stays(p) })) {
			return true
		}
	}
	return false
}

// on is what a pod on a node means to the groups, once none may be added: a class without required
// anti-affinity owns none.
func (classes runningClasses) on(p *world.Pod, c *demand.Compiler) *runningClass {
	key := runningKey{p.Class, p.Namespace}
	r := classes[key]
	if r == nil {
		r = &runningClass{}
		classes[key] = r
	}
	if !r.matched {
		r.counted, r.matched = c.Topologies.Space.Matching(p.Class.Labels, p.Namespace), true
	}
	return r
}

func (l *Layout) countOn(b *Bin, groups []*topology.Group, passes map[int]bool, n int32) {
	node := b.Node()
	for _, g := range groups {
		pass, known := passes[g.Filter]
		if !known {
			pass = node.passes(&l.Compiler.Topologies.Filters[g.Filter])
			passes[g.Filter] = pass
		}
		if !pass {
			continue
		}
		if g.Hostname() {
			l.count(b, g, b.Index, n)
		} else if v, ok := node.labels()[g.Domains.Key]; ok {
			l.count(b, g, g.Domains.Index(v), n)
		}
	}
}

// Record counts n pods of a class that b got, or a fixed one loses.
func (l *Layout) Record(b *Bin, k *demand.Class, n int32) {
	for _, g := range k.Topology.Counted {
		l.recordIn(b, g, n)
	}
	for _, g := range k.Topology.Owned {
		l.recordIn(b, g, n)
	}
}

func (l *Layout) recordIn(b *Bin, g *topology.Group, n int32) {
	if !l.filterPasses(b, g.Filter) {
		return
	}
	if g.Hostname() {
		l.count(b, g, b.Index, n)
		return
	}
	m := b.Place.domains(g.Domains)
	if !m.Any() {
		return // without the key, the node is in no domain
	}
	if i, single := m.Single(); single && !b.Place.mayLack(g.Domains) {
		l.count(b, g, i, n)
		return
	}
	if g.Possible() {
		for i := range g.Domains.Len() {
			if m.Has(i) {
				l.count(b, g, i, n)
			}
		}
		return
	}
	if b.uncounted == nil {
		b.uncounted = map[*topology.Group]int32{}
	}
	b.uncounted[g] += n
	if !g.Elusive && l.Changes != nil {
		l.Changes.elusive = append(l.Changes.elusive, g)
	}
	g.Elusive = true
}

// Settle counts what could not be counted before the claim's domain became certain.
func (l *Layout) Settle(b *Bin) {
	if len(b.uncounted) == 0 {
		return
	}
	for _, g := range l.Compiler.Topologies.Space.Groups() {
		n, waits := b.uncounted[g]
		if !waits {
			continue
		}
		if i, single := b.Place.domains(g.Domains).Single(); single && !b.Place.mayLack(g.Domains) {
			l.count(b, g, i, n)
			delete(b.uncounted, g)
		}
	}
}

func (l *Layout) filterPasses(b *Bin, id int) bool {
	return id == 0 || b.Place.passes(&l.Compiler.Topologies.Filters[id])
}

// counted is one change of a group's counts.
type counted struct {
	group *topology.Group
	at    int
	n     int32
}

// Uncount undoes everything that b's pods counted; recount counts it again.
func (b *Bin) Uncount() {
	for _, r := range b.records {
		r.group.Record(r.at, -r.n)
	}
}

func (b *Bin) Recount() {
	for _, r := range b.records {
		r.group.Record(r.at, r.n)
	}
}

// Undecided reports that the claim has pods that c is about, and may still become a node of several domains.
func (b *Bin) Undecided(c *topology.Constraint) bool {
	if _, single := b.Open().State.Domains(c.Group.Domains).Single(); single {
		return false
	}
	if c.Kind == topology.Affinity {
		return b.uncounted[c.Group] > 0
	}
	return slices.ContainsFunc(b.records, func(r counted) bool { return r.group == c.Group })
}

// ForgetOthers undoes what the claim's pods count in domains that it can no longer be in.
func (b *Bin) ForgetOthers(d *topology.Domains) {
	mask := b.Open().State.Domains(d)
	b.records = slices.DeleteFunc(b.records, func(r counted) bool {
		gone := r.group.Domains == d && r.group.Possible() && !mask.Has(r.at)
		if gone {
			r.group.Record(r.at, -r.n)
		}
		return gone
	})
}
