package place

import (
	"slices"

	"millwright/planner/bitset"
	"millwright/planner/catalog"
	"millwright/planner/provision/internal/demand"
	"millwright/planner/provision/internal/offer"
	"millwright/planner/resource"
	"millwright/planner/topology"
)

// OpenClaim is a claim being built: a new one, or a planned one that is being widened.
type OpenClaim struct {
	Template *offer.Template
	State    *offer.State
	// Types can hold the pods so far and have an offering.
	Types bitset.Set
	// Used sums the pods' requests, without DaemonSets.
	Used   resource.Vector
	Minima []offer.Minimum
	// Relaxed: BestEffort lowered a minimum.
	Relaxed bool
	// Reserved is what the claim takes of its pool's limits.
	Reserved resource.Vector
	// Holds are the reservations of which the claim has one instance each, sorted.
	Holds []string
	// Probes are, by shape, the unproven types that the claim is to try, since it can have nothing else; nil
	// if it can.
	Probes []bitset.Set
	// largest is the per-resource maximum of the types; room, less what is used, bounds one more pod. growth:
	// the claim takes pods as long as one of these holds them all; nil: any type.
	growth        bitset.Set
	Largest, Room resource.Vector
	// extent is what is known of the types, and of the largest of those it may grow to.
	extent catalog.Extent
	// tariff by which the price was asked last: the types before at in its order are gone.
	tariff *offer.Tariff
	at     int
	// Price of the claim, as far as it is packed: that of its cheapest offering, and what a node costs by
	// itself.
	Price int64
	// InWave: it counts among those that waves bound.
	InWave bool
	// Earlier is the planned claim that is being widened, which had the first so many of its pods before; nil
	// for a new claim.
	Earlier *PlannedClaim
	Before  int
}

func (o *OpenClaim) accept(l *Layout, b *Bin, lv *demand.Level, _ bool) Outcome {
	c, t := lv.Class, o.Template
	if !c.Requests.Fits(o.Room) {
		return Full
	}
	if demand.Untolerated(t.Taints(), c.Pod.Spec.Tolerations, lv.StrictTaints) != nil {
		return Never
	}
	if len(c.Ports) > 0 && demand.Clash(c.Ports, b.Ports) {
		return Never
	}
	if len(lv.ByKey) > 0 && b.elsewhere(o, lv) {
		return notNow
	}
	l.Steps += StepsWhole - 1
	total := o.Used.Add(c.Requests)
	ports := c.Ports
	if len(b.Ports) > 0 {
		ports = slices.Concat(b.Ports, c.Ports)
	}
	result := Never
	if t.Limits.Sparing() {
		result = notNow // other claims may give back what the limits lack
	}
	for _, a := range lv.Alternatives {
		n := o.State.Narrow(a)
		if n == nil || !n.Usable.Meets(o.Types) {
			continue
		}
		x, fits := l.fits(o, n, &total, ports)
		if !fits {
			continue
		}
		result = notNow
		if l.acceptIn(b, o, n, x, lv, &total, ports) {
			l.Settle(b)
			return Accepted
		}
	}
	return result
}

// acceptIn makes the claim, which fits in state n, one in that state or a narrower one that the level's
// constraints allow.
func (l *Layout) acceptIn(b *Bin, o *OpenClaim, n *offer.State, x offer.Fit, lv *demand.Level, total *resource.Vector, ports []demand.HostPort) bool {
	if len(lv.ByKey) == 0 {
		return l.becomeFit(b, o, n, x, total, ports)
	}
	done, _ := l.Candidates(n, x.Types, b, lv, func(next *offer.State) bool {
		if next == n {
			return l.becomeFit(b, o, n, offer.Fit{Types: l.holding, Extent: x.Extent}, total, ports)
		}
		return next.Usable.Meets(o.Types) && l.Become(b, o, next, total, ports)
	})
	return done
}

// Become makes the claim, in bin b, one in state n whose pods request total and have these host ports; false
// if it can't be that.
func (l *Layout) Become(b *Bin, o *OpenClaim, n *offer.State, total *resource.Vector, ports []demand.HostPort) bool {
	x, fits := l.fits(o, n, total, ports)
	return fits && l.becomeFit(b, o, n, x, total, ports)
}

// becomeFit is Become with what is known to fit.
func (l *Layout) becomeFit(b *Bin, o *OpenClaim, n *offer.State, x offer.Fit, total *resource.Vector, ports []demand.HostPort) bool {
	holds, ok := l.Reserved.Holdable(n, x.Types, o.Holds)
	if !ok {
		return false
	}
	tries, ok := l.probes.admit(n, x.Types, o.Probes)
	if !ok || !o.InWave && o.Earlier == nil && !l.waves.admit(o.Template, x.Types, holds) {
		return false
	}
	l.touch(b)
	l.Reserved.Hold(o, holds)
	l.probes.take(o, n, tries)
	o.State, o.Used, b.Ports, o.extent = n, *total, ports, x.Extent
	o.keepTypes(x.Types)
	l.waves.take(o)
	return true
}

func (o *OpenClaim) domains(d *topology.Domains) bitset.Set { return o.State.Domains(d) }

func (o *OpenClaim) mayLack(d *topology.Domains) bool { return o.State.MayLack(d) }

func (o *OpenClaim) certain(string, *demand.NodeFilter) []string { return nil }

func (o *OpenClaim) passes(f *demand.NodeFilter) bool {
	return f.Claim(o.State.Set, o.Template.Taints())
}

func (o *OpenClaim) Target() Target {
	if o.Earlier != nil {
		return o.Earlier.Target()
	}
	return Target{}
}

func (o *OpenClaim) saved() Place {
	old := *o
	old.Types = o.Types.Clone()
	return &old
}

// elsewhere reports, without trying, that the pod must go to another domain now than the claim is in.
func (b *Bin) elsewhere(o *OpenClaim, lv *demand.Level) bool {
	for i := range lv.ByKey {
		mask := o.State.Domains(lv.ByKey[i].Domains)
		for _, c := range lv.ByKey[i].Constraints {
			if b.sharesDomain(c, mask) || absentIsFine(c, mask) {
				continue
			}
			if allowed, _ := c.Allowed(); !allowed.Meets(mask) {
				return true
			}
		}
	}
	return false
}

// Fits returns, valid until the next call, the types that the claim in state n has for total; ok says that
// they suffice.
func (l *Layout) Fits(o *OpenClaim, n *offer.State, total *resource.Vector, ports []demand.HostPort) (types bitset.Set, ok bool) {
	x, ok := l.fits(o, n, total, ports)
	return x.Types, ok
}

// fits is Fits with what is known of the types.
func (l *Layout) fits(o *OpenClaim, n *offer.State, total *resource.Vector, ports []demand.HostPort) (x offer.Fit, ok bool) {
	x.Extent = o.extent
	x.Types = l.fitting(o.Template, o.Types, n, total, ports, &x.Extent)
	if l := &o.Template.Limits; l.Sparing() {
		l.KeepWithin(o.Template.Catalog, x.Types, &o.Reserved)
	}
	return x, x.Types.Any() && (o.growth == nil || x.Types.Meets(o.growth)) && len(o.Template.Unmet(n.Set, x.Types, o.Minima)) == 0
}

// keepTypes narrows the claim to types and gives back what it no longer takes of the limits.
func (o *OpenClaim) keepTypes(types bitset.Set) {
	t := o.Template
	if !types.Equal(o.Types) {
		copy(o.Types, types)
		o.Largest = o.LargestGrowth()
		if len(t.Limits.Left) > 0 {
			now := t.Limits.Charge(t.Catalog, o.Types)
			t.Limits.Reserve(now.Sub(o.Reserved), 0)
			o.Reserved = now
		}
	}
	o.Room = o.Largest.Sub(o.Used)
}

// LargestGrowth is the per-resource maximum of the allocatable of the types the claim may grow to, as far as
// pods request it.
func (o *OpenClaim) LargestGrowth() resource.Vector {
	return o.Template.Catalog.LargestWithin(o.Types, o.growth, o.Template.Extended, &o.extent)
}

// Fitting returns, valid until the next call, the types of n among from that hold total and the DaemonSets
// that run on them, whose host ports do not clash with the pods'.
func (l *Layout) Fitting(t *offer.Template, from bitset.Set, n *offer.State, total *resource.Vector, ports []demand.HostPort) bitset.Set {
	return l.fitting(t, from, n, total, ports, &catalog.Extent{})
}

// fitting is Fitting of types of which something is known, and notes what is known of those that fit.
func (l *Layout) fitting(t *offer.Template, from bitset.Set, n *offer.State, total *resource.Vector, ports []demand.HostPort, known *catalog.Extent) bitset.Set {
	out, part := l.scratch(len(from))
	before, any := *known, false
	for i := range t.Groups {
		g := &t.Groups[i]
		if len(ports) > 0 && demand.Clash(ports, g.Ports) {
			continue
		}
		for w := range part {
			part[w] = from[w] & n.Usable[w] & g.Types[w]
		}
		need := total.Add(g.Overhead)
		now := before
		t.Catalog.NarrowWithin(part, &need, &now)
		if any {
			known.MeetLow(&now)
		} else {
			*known, any = now, true
		}
		out.Or(part)
	}
	return out
}

// scratch returns two buffers of n words, the first cleared.
func (l *Layout) scratch(n int) (out, part bitset.Set) {
	if len(l.buffer) < 2*n {
		l.buffer = make(bitset.Set, 2*n)
	}
	clear(l.buffer[:n])
	return l.buffer[:n], l.buffer[n : 2*n]
}

// openIn returns a claim in state n with one pod of the class, within the limits; nil if there is none.
// awaits: it would have to do without reserved capacity that is there, but held.
func (l *Layout) openIn(t *offer.Template, c *demand.Class, n *offer.State, g *offer.Ceiling) (o *OpenClaim, awaits bool) {
	x := l.opening(t, n, c)
	if !x.Types.Any() {
		return nil, false
	}
	return l.openFit(t, c, n, x, g)
}

// opening is what fits a new claim for a pod of the class; shared.
func (l *Layout) opening(t *offer.Template, n *offer.State, c *demand.Class) (x offer.Fit) {
	known := n.Opening(c.Request)
	if known != nil && known.Types != nil && len(c.Ports) == 0 {
		return *known
	}
	x.Types = l.fitting(t, t.Root.Usable, n, &c.Requests, c.Ports, &x.Extent)
	if known != nil && len(c.Ports) == 0 {
		x.Types = x.Types.Clone()
		*known = x
	}
	return x
}

// openFit is openIn with the types that are known to fit.
func (l *Layout) openFit(t *offer.Template, c *demand.Class, n *offer.State, x offer.Fit, g *offer.Ceiling) (o *OpenClaim, awaits bool) {
	o = l.newOpen()
	held := append(o.Types[:0], x.Types...)
	if t.Limits.Narrow(t.Catalog, held) != nil {
		return nil, false
	}
	minima, relaxed, ok := l.MinimaFor(t, n, held)
	if !ok {
		return nil, false
	}
	holds, ok := l.Reserved.Holdable(n, held, nil)
	if !ok {
		return nil, true
	}
	tries, ok := l.probes.admit(n, held, nil)
	if !ok || !l.waves.admit(t, held, holds) {
		return nil, false
	}
	*o = OpenClaim{Template: t, State: n, Types: held, Used: c.Requests, Minima: minima, Relaxed: relaxed, growth: g.Growth(c, n, held), extent: x.Extent}
	o.Largest = o.LargestGrowth()
	o.Room = o.Largest.Sub(o.Used)
	l.Reserved.Hold(o, holds)
	l.probes.take(o, n, tries)
	l.waves.take(o)
	if len(t.Limits.Left) > 0 {
		o.Reserved = t.Limits.Charge(t.Catalog, held)
		t.Limits.Reserve(o.Reserved, 1)
	}
	return o, false
}

// MinimaFor returns the minima a new claim must keep: the pool's, or under BestEffort what is reached.
func (l *Layout) MinimaFor(t *offer.Template, n *offer.State, types bitset.Set) (minima []offer.Minimum, relaxed, ok bool) {
	if len(t.Unmet(n.Set, types, t.Minima)) == 0 {
		return t.Minima, false, true
	}
	if l.in.Options.MinValuesPolicy != offer.MinValuesBestEffort {
		return nil, false, false
	}
	return t.Reached(n.Set, types, t.Minima), true, true
}

// OpenOn returns a claim of t with one pod; final says that a refusal depends neither on limits nor on the
// topology, nor on what other claims try and how many there are; awaits that reserved capacity is held
// which would do.
func (l *Layout) OpenOn(t *offer.Template, lv *demand.Level, g *offer.Ceiling) (o *OpenClaim, final, awaits bool) {
	c := lv.Class
	if demand.Untolerated(t.Taints(), c.Pod.Spec.Tolerations, lv.StrictTaints) != nil {
		return nil, true, false
	}
	l.Steps += StepsWhole
	final = true
	for _, a := range lv.Alternatives {
		n := t.Root.Narrow(a)
		if n == nil {
			continue
		}
		x := l.opening(t, n, c)
		if !x.Types.Any() {
			continue
		}
		final = final && len(lv.ByKey) == 0 && len(t.Limits.Left) == 0 && t.Proven == nil && !l.waves.bounds(t)
		open := func(next *offer.State) bool {
			var held bool
			switch {
			case next != n:
				o, held = l.openIn(t, c, next, g)
			case len(lv.ByKey) == 0:
				o, held = l.openFit(t, c, n, x, g)
			default:
				o, held = l.openFit(t, c, n, offer.Fit{Types: l.holding, Extent: x.Extent}, g)
			}
			awaits = awaits || held
			return o != nil
		}
		l.Candidates(n, x.Types, nil, lv, open)
		if o != nil {
			return o, false, false
		}
	}
	return nil, final, awaits
}

// Cheapest is the price of the cheapest offering a claim may become; noPrice if it has none.
func (o *OpenClaim) Cheapest() int64 {
	tr := o.State.Tariff()
	if o.tariff != tr {
		o.tariff, o.at = tr, 0
	}
	for ; o.at < len(tr.Order); o.at++ {
		if i := tr.Order[o.at]; o.Types.Has(int(i)) {
			return tr.Price[i]
		}
	}
	return offer.NoPrice
}

// Cost is cheapest with what a node costs by itself; noPrice if the claim has no offering.
func (o *OpenClaim) Cost() int64 {
	price := o.Cheapest()
	if price == offer.NoPrice {
		return offer.NoPrice
	}
	return offer.AddSaturated(price, 1, o.State.Template.NodeCost)
}

// NarrowTo makes the claim in b one in state n, with the same pods; false if it can't be that.
func (l *Layout) NarrowTo(b *Bin, n *offer.State) bool {
	o := b.Open()
	return l.Become(b, o, n, &o.Used, b.Ports)
}

// GrowFreely lets the claim take pods as long as any of its types holds them all.
func (o *OpenClaim) GrowFreely() {
	if o.growth != nil {
		o.growth = nil
		o.extent.Restart()
		o.Largest = o.LargestGrowth()
		o.Room = o.Largest.Sub(o.Used)
	}
}

// TakePart lets the claim have one of so many parts of what is left of the limits.
func (o *OpenClaim) TakePart(parts int64) {
	l, c := &o.Template.Limits, o.Template.Catalog
	for _, x := range l.Left {
		if x.Name == offer.ResourceNodes {
			continue
		}
		most := o.Reserved.Get(x.Name) + max(0, x.Left)/parts
		for i := range o.Types.Members() {
			if c.Types[i].Capacity.Get(x.Name) > most {
				o.Types.Remove(i)
			}
		}
	}
	now := l.CapacityMax(c, o.Types)
	l.Reserve(now.Sub(o.Reserved), 0)
	o.Reserved = now
}

// Covers is the first level of a class that the claim's requirements cover as they are; the number of levels
// if they cover none.
func (o *OpenClaim) Covers(c *demand.Class) int {
	i := slices.IndexFunc(c.Levels, func(lv *demand.Level) bool {
		return demand.Untolerated(o.Template.Taints(), c.Pod.Spec.Tolerations, lv.StrictTaints) == nil &&
			slices.ContainsFunc(lv.Alternatives, func(a *demand.Alternative) bool { return o.State.Narrow(a) == o.State })
	})
	if i < 0 {
		return len(c.Levels)
	}
	return i
}
