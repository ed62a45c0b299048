package place

import (
	"maps"
	"slices"

	"millwright/planner/bitset"
	"millwright/planner/provision/internal/offer"
	"millwright/planner/topology"
)

// Changes of a layout that can be reverted: bins that take pods or are removed, what they count, what they
// use of limits and reservations. What is absent was not changed.
//
// In a plan with nodes A and B and a pod p that goes from A to B:
//
//	begin          the limits and free reservations are copied, nothing else
//	remove A       removed: A, which offers nothing; counts: its pods are no longer counted
//	B takes p      saved: B as it was before; counts: p is counted on B
//	revert         counts are taken back, B is as it was, A offers its places again
//
// Changes may begin within others. Reverting takes back the inner ones alone; keeping them adds to the outer
// ones what these have not saved themselves:
//
//	begin          outer
//	B takes p      outer saved: B as it was before p
//	begin          inner
//	B and C take q inner saved: B with p, C
//	keep           outer saved: B as it was before p, C
type Changes struct {
	// outer are those within which these began; nil: none.
	outer *Changes
	// Bins is how many there were when it began: those from there on are its own.
	Bins   int
	limits []savedLimits
	// left and closed are of the reservations; nil if there are none.
	left   map[string]int64
	closed map[string]bool
	// taken is of the probes, if there are any.
	taken [][]bitset.Set
	// wave is what is left of the waves, if they are bounded.
	wave []int64
	// narrowed: templates offer less than before, since reservations were closed.
	narrowed bool
	// saved bins took pods.
	saved   []savedBin
	counts  []counted
	domains []lostDomain
	removed []*Bin
	// elusive are groups that became so.
	elusive []*topology.Group
}

// savedLimits is what a template offers and may still add.
type savedLimits struct {
	offered *offer.Offered
	root    *offer.State
	left    []offer.Limit
}

// savedBin is a bin as it was before it took a pod.
type savedBin struct {
	bin      *Bin
	previous Bin
}

// lostDomain is a domain that no longer exists for a constraint.
type lostDomain struct {
	constraint *topology.Constraint
	at         int
}

// Begin records changes from here on.
func (l *Layout) Begin() {
	c := l.spareChanges
	if c == nil {
		c = &Changes{}
	}
	l.spareChanges = nil
	*c = Changes{
		outer: l.Changes, Bins: len(l.Bins), limits: c.limits[:0],
		saved: c.saved[:0], counts: c.counts[:0], domains: c.domains[:0], removed: c.removed[:0], elusive: c.elusive[:0],
	}
	for _, x := range l.Templates {
		c.limits = append(c.limits, savedLimits{x.Offered, x.Root, slices.Clone(x.Limits.Left)})
	}
	if l.Reserved != nil {
		c.left, c.closed = maps.Clone(l.Reserved.left), maps.Clone(l.Reserved.closed)
	}
	if l.probes != nil {
		c.taken = slices.Clone(l.probes.taken)
	}
	if l.waves != nil {
		c.wave = l.waves.left
	}
	l.Changes = c
}

// KeepChanges ends what the last Begin began and keeps the changes.
func (l *Layout) KeepChanges() {
	c := l.Changes
	l.Changes, l.spareChanges = c.outer, c
	for i := range c.saved {
		x := &c.saved[i]
		x.bin.savedBy = x.previous.savedBy
		c.outer.save(x)
	}
	if c.outer != nil {
		c.outer.counts = append(c.outer.counts, c.counts...)
		c.outer.domains = append(c.outer.domains, c.domains...)
		c.outer.removed = append(c.outer.removed, c.removed...)
		c.outer.elusive = append(c.outer.elusive, c.elusive...)
		c.outer.narrowed = c.outer.narrowed || c.narrowed
	}
}

// RevertChanges reverts what changed since the last Begin.
func (l *Layout) RevertChanges() {
	c := l.Changes
	l.Changes, l.spareChanges = c.outer, c
	for _, b := range c.removed {
		b.Gone = false
		if n := b.Node(); n != nil {
			l.support(n, 1)
		} else {
			b.Recount()
		}
	}
	for _, b := range l.Bins[c.Bins:] {
		b.Uncount()
		l.Discard(b)
	}
	l.Bins = l.Bins[:c.Bins]
	for i := range c.saved {
		x := &c.saved[i]
		x.bin.Uncount()
		*x.bin = x.previous
		x.bin.Recount()
	}
	for _, x := range c.counts {
		x.group.Record(x.at, -x.n)
	}
	for _, g := range c.elusive {
		g.Elusive = false
	}
	for _, x := range c.domains {
		x.constraint.Admit(x.at)
	}
	for i, x := range c.limits {
		limits := &l.Templates[i].Limits
		l.Templates[i].Offered, l.Templates[i].Root, limits.Left = x.offered, x.root, x.left
		limits.Moved++
	}
	if l.Reserved != nil {
		l.Reserved.left, l.Reserved.closed = c.left, c.closed
		l.Reserved.Moved++
	}
	if l.probes != nil {
		l.probes.taken = c.taken
	}
	if l.waves != nil {
		l.waves.left = c.wave
	}
}

// touch saves a bin that is about to take a pod.
func (l *Layout) touch(b *Bin) {
	if !l.Changes.lacks(b) {
		return
	}
	v := savedBin{b, *b}
	v.previous.Place, v.previous.records, v.previous.uncounted = b.Place.saved(), slices.Clone(b.records), maps.Clone(b.uncounted)
	l.Changes.save(&v)
}

// lacks reports that a bin must be saved before it takes a pod.
func (c *Changes) lacks(b *Bin) bool {
	return c != nil && b.savedBy != c && b.Index < c.Bins
}

// save keeps what a bin was, unless that is known.
func (c *Changes) save(v *savedBin) {
	if c.lacks(v.bin) {
		c.saved = append(c.saved, *v)
		v.bin.savedBy = c
	}
}

// Changed reports that what is known of a bin now may not hold after a revert.
func (l *Layout) Changed(b *Bin) bool {
	return l.Changes != nil && (b.savedBy != nil || b.Gone || b.Index >= l.Changes.outermost().Bins)
}

func (c *Changes) outermost() *Changes {
	for c.outer != nil {
		c = c.outer
	}
	return c
}

// OffersLess reports that what a template refuses now it may take after a revert.
func (l *Layout) OffersLess() bool {
	for c := l.Changes; c != nil; c = c.outer {
		if c.narrowed {
			return true
		}
	}
	return false
}

// Dearer is by how much the claims that were open before cost more, at the cheapest, than when the changes
// began.
func (c *Changes) Dearer() (sum int64) {
	for i := range c.saved {
		if old, isOpen := c.saved[i].previous.Place.(*OpenClaim); isOpen {
			sum += c.saved[i].bin.Open().Cheapest() - old.Cheapest()
		}
	}
	return sum
}

// RemoveClaim takes a new claim out of the plan, its pods out of the counts, and gives back what it uses of
// the limits. The claim must hold no reserved capacity.
func (l *Layout) RemoveClaim(b *Bin) {
	l.Changes.removed = append(l.Changes.removed, b)
	b.Gone = true
	b.Uncount()
	o := b.Open()
	o.Template.Limits.Reserve(o.Reserved.Negated(), -1)
	l.waves.giveBack(o)
}

// Remove makes a node offer nothing, and removes its pods from the counts, but for those that stay there.
func (l *Layout) Remove(b *Bin) {
	n := b.Node()
	l.Changes.removed = append(l.Changes.removed, b)
	b.Gone = true
	l.support(n, -1)
	for _, x := range l.Templates {
		if x.Name == n.State.NodePool {
			x.Limits.Reserve(n.State.Capacity.Negated(), -1)
		}
	}
	l.uncountPods(b, n)
}

// count counts n pods of b in a domain or place, in a way that can be reverted: while b is a claim being
// built, and while changes are recorded.
func (l *Layout) count(b *Bin, g *topology.Group, at int, n int32) {
	g.Record(at, n)
	if b.Open() != nil {
		b.records = append(b.records, counted{g, at, n})
	} else if l.Changes != nil {
		l.Changes.counts = append(l.Changes.counts, counted{g, at, n})
	}
}

// support adds n to what supports the domains of a node. Domains that nothing supports any more are lost to
// the constraints for which no pods stay there, until the changes are reverted.
func (l *Layout) support(node *Node, n int32) {
	for _, key := range l.existKeys {
		x := l.exist[key]
		at := key.domains.Index(node.labels()[key.domains.Key])
		if at < 0 || !node.passes(&l.Compiler.Topologies.Filters[key.filter]) {
			continue
		}
		x.by[at] += n
		if x.by[at] > 0 || l.Changes == nil {
			continue
		}
		for _, c := range x.users {
			if !l.holdsDomain(c.Group, at) && c.Dismiss(at) {
				l.Changes.domains = append(l.Changes.domains, lostDomain{c, at})
			}
		}
	}
}
