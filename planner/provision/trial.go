package provision

import (
	"maps"
	"slices"

	"millwright/planner/topology"
)

// trial is a change of a solver that can be taken back: bins that take pods or go, what they count, what they take of limits and
// reservations, and what was learned from bins that changed. What is learned of the others stays.
//
// In a plan with nodes A, B, C, each full but for one place, and a pod p of a class K on each:
//
//	begin                     nothing is copied but the limits
//	remove A                  log: A offers nothing; its pods are no longer counted
//	find(K)                   learns that B is full for K (it stays so in every trial); takes C; log: C as it was
//	find(K) for another pod   learns that C is full: C is in the log, so this is logged too
//	revert                    C has its place again and is not known to be full; A offers its places; B is still known to be full
type trial struct {
	// bins is how many there were when it began: those from there on are its own.
	bins int
	// claimsMax it may open, negative: any; hasty: it ends with the first pod that has no place.
	claimsMax int
	hasty     bool
	limits    []savedLimits
	// left and closed are of the reservations; nil if there are none.
	left   map[string]int64
	closed map[string]bool
	// touched bins are those that it removed or that took pods, fixed and open as they were before.
	touched []*bin
	fixed   []savedFixed
	open    []savedOpen
	counts  []counted
	learned []learned
	domains []lostDomain
	removed []*bin
	items   []savedItem
}

// savedLimits is what a template offers and may still add.
type savedLimits struct {
	offered *offered
	root    *state
	left    []limit
}

// savedFixed is a node or a planned claim before it took a pod.
type savedFixed struct {
	bin *bin
	was bin
}

// savedOpen is a claim that was open when the trial began, before it took a pod.
type savedOpen struct {
	bin *bin
	savedBin
	records []counted
	price   int64
}

// learned is that a bin refuses for good.
type learned struct {
	set *growingBits
	at  int
}

// lostDomain is a domain that no longer exists for a constraint.
type lostDomain struct {
	constraint *topology.Constraint
	at         int
}

type savedItem struct {
	*item
	bin   *bin
	level int
}

func (s *solver) begin() {
	if s.trial != nil {
		panic("provision: a trial begins before the last one has ended")
	}
	t := &trial{bins: len(s.bins)}
	for _, x := range s.templates {
		t.limits = append(t.limits, savedLimits{x.offered, x.root, slices.Clone(x.limits.left)})
	}
	if s.reserved != nil {
		t.left, t.closed = maps.Clone(s.reserved.left), maps.Clone(s.reserved.closed)
	}
	s.trial = t
	s.trials++
}

func (s *solver) commitTrial() {
	for _, b := range s.trial.touched {
		b.touched = false
	}
	s.trial = nil
	s.trials++
}

func (s *solver) revert() {
	t := s.trial
	s.trial = nil
	s.trials++
	for _, b := range s.bins[t.bins:] {
		b.uncount()
		s.discard(b)
	}
	s.bins = s.bins[:t.bins]
	for _, x := range t.open {
		x.bin.uncount()
		*x.bin.open = x.savedBin.open
		x.bin.added, x.bin.ports, x.bin.uncounted, x.bin.price = x.bin.added[:x.added], x.bin.ports[:x.ports], x.uncounted, x.price
		x.bin.records = x.records
		x.bin.recount()
	}
	for _, x := range t.fixed {
		*x.bin = x.was
	}
	for _, c := range t.counts {
		c.group.Record(c.at, -c.n)
	}
	for _, x := range t.learned {
		x.set.remove(x.at)
	}
	for _, x := range t.domains {
		x.constraint.Admit(x.at)
	}
	for _, b := range t.removed {
		b.gone = false
		s.support(b, 1, nil)
	}
	for _, b := range t.touched {
		b.touched = false
	}
	for _, x := range t.items {
		x.item.bin, x.item.level = x.bin, x.level
	}
	for i, x := range t.limits {
		l := &s.templates[i].limits
		s.templates[i].offered, s.templates[i].root, l.left = x.offered, x.root, x.left
		l.moved++
	}
	if s.reserved != nil {
		s.reserved.left, s.reserved.closed = t.left, t.closed
		s.reserved.moved++
	}
}

// touch saves a bin that is about to take a pod.
func (s *solver) touch(b *bin) {
	t := s.trial
	if t == nil || b.touched || b.index >= t.bins {
		return
	}
	t.touched = append(t.touched, b)
	if b.open != nil {
		t.open = append(t.open, savedOpen{bin: b, savedBin: b.save(), records: slices.Clone(b.records), price: b.price})
	} else {
		was := *b
		was.volumes = b.volumes.clone()
		t.fixed = append(t.fixed, savedFixed{b, was})
	}
	b.touched = true
}

// learn notes that a bin refuses for good.
func (s *solver) learn(set *growingBits, b *bin) {
	if t := s.trial; t != nil && (b.touched || b.gone || b.index >= t.bins) && !set.has(b.index) {
		t.learned = append(t.learned, learned{set, b.index})
	}
	set.add(b.index)
}

// remove has a node offer nothing any more, and counts none of its pods.
func (s *solver) remove(b *bin) {
	t := s.trial
	t.removed = append(t.removed, b)
	b.gone = true
	s.support(b, -1, t)
	for _, x := range s.templates {
		if x.name == b.node.NodePool {
			x.limits.reserve(b.node.Capacity.Negated(), -1)
		}
	}
	s.uncountPods(b)
}

// relocate takes an item off the bin that goes.
func (s *solver) relocate(it *item) {
	s.trial.items = append(s.trial.items, savedItem{it, it.bin, it.level})
	s.record(it.bin, it.class, -1)
	it.bin = nil
}

// count counts n pods of b in a domain or place, in a way that can be taken back: while b is a new claim, and during a trial.
func (s *solver) count(b *bin, g *topology.Group, at int, n int32) {
	g.Record(at, n)
	switch {
	case b.open != nil:
		b.records = append(b.records, counted{g, at, n})
	case s.trial != nil:
		s.trial.counts = append(s.trial.counts, counted{g, at, n})
	}
}

// support adds n to what supports the domains of a node. Those that nothing supports any more are lost to the constraints, for as long
// as the trial lasts.
func (s *solver) support(b *bin, n int32, t *trial) {
	for _, key := range s.existKeys {
		x := s.exist[key]
		at := key.domains.Index(b.nodeLabels()[key.domains.Key])
		if at < 0 || !s.compiler.topologies.filters[key.filter].node(b.nodeLabels(), b.node.Taints) {
			continue
		}
		x.by[at] += n
		if x.by[at] > 0 || t == nil {
			continue
		}
		for _, c := range x.users {
			if c.Dismiss(at) {
				t.domains = append(t.domains, lostDomain{c, at})
			}
		}
	}
}

// full reports that the trial may not open one more claim.
func (t *trial) full(bins int) bool {
	return t != nil && t.claimsMax >= 0 && bins-t.bins >= t.claimsMax
}

// ends reports that a pod without a place is the end of the trial: no pod that is placed later can help it.
func (t *trial) ends(it *item) bool {
	return t != nil && t.hasty && !it.deferred && !slices.ContainsFunc(it.class.topology.hard, func(c *topology.Constraint) bool { return c.Kind != topology.Spread || !c.Group.Hostname() })
}
