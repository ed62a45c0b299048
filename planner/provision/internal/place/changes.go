package place

import (
	"maps"
	"slices"

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
type Changes struct {
	// Bins is how many there were when it began: those from there on are its own.
	Bins   int
	limits []savedLimits
	// left and closed are of the reservations; nil if there are none.
	left   map[string]int64
	closed map[string]bool
	// saved bins took pods.
	saved   []SavedBin
	counts  []counted
	domains []lostDomain
	removed []*Bin
}

// savedLimits is what a template offers and may still add.
type savedLimits struct {
	offered *offer.Offered
	root    *offer.State
	left    []offer.Limit
}

// SavedBin is a bin as it was before it took a pod.
type SavedBin struct {
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
	c := &Changes{Bins: len(l.Bins)}
	for _, x := range l.Templates {
		c.limits = append(c.limits, savedLimits{x.Offered, x.Root, slices.Clone(x.Limits.Left)})
	}
	if l.Reserved != nil {
		c.left, c.closed = maps.Clone(l.Reserved.left), maps.Clone(l.Reserved.closed)
	}
	l.Changes = c
}

// KeepChanges ends what Begin began and keeps the changes.
func (l *Layout) KeepChanges() {
	for _, x := range l.Changes.saved {
		x.bin.touched = false
	}
	l.Changes = nil
}

// RevertChanges reverts what changed since Begin.
func (l *Layout) RevertChanges() {
	c := l.Changes
	l.Changes = nil
	for _, b := range l.Bins[c.Bins:] {
		b.Uncount()
		l.Discard(b)
	}
	l.Bins = l.Bins[:c.Bins]
	for i := range c.saved {
		c.saved[i].bin.restore(&c.saved[i])
		c.saved[i].bin.touched = false
	}
	for _, x := range c.counts {
		x.group.Record(x.at, -x.n)
	}
	for _, x := range c.domains {
		x.constraint.Admit(x.at)
	}
	for _, b := range c.removed {
		b.Gone = false
		l.support(b.Node(), 1)
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
}

// Save copies what changes as the bin takes pods.
func (b *Bin) Save() SavedBin {
	v := SavedBin{b, *b}
	v.previous.Place, v.previous.records, v.previous.uncounted = b.Place.saved(), slices.Clone(b.records), maps.Clone(b.uncounted)
	return v
}

// restore resets the bin to what it was; what it uses of limits and reservations is up to the caller.
func (b *Bin) restore(v *SavedBin) {
	touched := b.touched
	b.Uncount()
	*b = v.previous
	b.touched = touched
	b.Recount()
}

// touch saves a bin that is about to take a pod.
func (l *Layout) touch(b *Bin) {
	c := l.Changes
	if c == nil || b.touched || b.Index >= c.Bins {
		return
	}
	c.saved = append(c.saved, b.Save())
	b.touched = true
}

// Changed reports that what is known of a bin now may not hold after a revert.
func (l *Layout) Changed(b *Bin) bool {
	return l.Changes != nil && (b.touched || b.Gone || b.Index >= l.Changes.Bins)
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

// Remove makes a node offer nothing, and removes its pods from the counts.
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
// the constraints, until the changes are reverted.
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
			if c.Dismiss(at) {
				l.Changes.domains = append(l.Changes.domains, lostDomain{c, at})
			}
		}
	}
}

// Undo resets a claim that is being built to what it was, and gives back what it has used since of limits and
// reservations.
func (l *Layout) Undo(v *SavedBin) {
	old, now := v.previous.Place.(*OpenClaim), v.bin.Open()
	l.Reserved.Hold(now, old.Holds)
	old.Template.Limits.Reserve(old.Reserved.Sub(now.Reserved), 0)
	v.bin.restore(v)
}
