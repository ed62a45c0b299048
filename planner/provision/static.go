package provision

import (
	"cmp"
	"math"
	"slices"
	"time"

	karpv1 "millwright/api/karpenter/v1"
	"millwright/planner"
	"millwright/planner/catalog"
	"millwright/planner/claim"
	"millwright/planner/ledger"
	"millwright/planner/options"
	"millwright/planner/provision/internal/offer"
	"millwright/planner/provision/internal/place"
	"millwright/planner/provision/internal/solve"
	"millwright/planner/requirement"
	"millwright/planner/resource"
)

// staticPool is a NodePool with spec.replicas and what counts towards them (reference: scheduling §14).
type staticPool struct {
	pool *karpv1.NodePool
	// active claims: nodes, and those still expected.
	active []staticMember
	// unready: it makes no nodes now.
	unready bool
	// replacing are nodes that a running command takes, going those that are being deleted.
	replacing, going int64
}

// staticMember is one active claim of a static pool; node is nil until it has an instance.
type staticMember struct {
	name     string
	node     *planner.StateNode
	launched bool
}

// addStatic plans the claims that static NodePools lack and dooms those they have in excess. It reports
// whether there are any.
func (d *decision) addStatic() bool {
	changed := false
	pools := staticPools(d.snapshot)
	room := staticRoom(d.snapshot.Options.StaticWave, pools)
	for _, p := range pools {
		n := min(d.launchable(p, p.missing()), room)
		if n > 0 && !p.limited(n) {
			changed = true
		}
		if p.limited(n) {
			d.round.AtNodeLimit = append(d.round.AtNodeLimit, p.pool.Name)
			n = max(0, p.headroom())
			changed = changed || n > 0
		}
		room -= n
		for range n {
			if c := staticClaim(p.pool); c != nil {
				d.payload.Claims = append(d.payload.Claims, *c)
				d.touchPool(p.pool.Name)
			}
		}
		for _, m := range p.excess(d.snapshot) {
			d.addExcess(p.pool, m)
			changed = true
		}
	}
	return changed
}

// staticRoom is how many claims may be made, of at most so many that have no instance yet; 0: without bound.
func staticRoom(most int64, pools []*staticPool) int64 {
	if most <= 0 {
		return math.MaxInt64
	}
	for _, p := range pools {
		for _, m := range p.active {
			if !m.launched {
				most--
			}
		}
	}
	return max(0, most)
}

// launchable is how many of n claims a static pool may be given now: none while everything it could have is
// marked, one at a time while nothing but unproven offerings is left.
func (d *decision) launchable(p *staticPool, n int64) int64 {
	in := d.solver.In
	at := slices.IndexFunc(in.Pools, func(x offer.PoolInput) bool { return x.NodePool.Name == p.pool.Name })
	if n == 0 || !in.Options.ProbeOfferings || at < 0 || in.Pools[at].Catalog == nil {
		return n
	}
	base, err := offer.TemplateRequirements(p.pool)
	if err != nil {
		return n
	}
	cat := in.Pools[at].Catalog
	types, shapes := cat.MatchingSet(base), []int(nil)
	available, proven := in.OfferedBy(cat, p.pool.Spec.Template.Spec.NodeClassRef.Name)
	cat.Offered(base, available, &shapes)
	unmarked := slices.ContainsFunc(shapes, func(i int) bool { return available[i].Meets(types) })
	offered := slices.ContainsFunc(shapes, func(i int) bool { return cat.Shapes[i].Offered.Meets(types) })
	switch {
	case !offered: // that it can have nothing at all is for its claims to say
		return n
	case !unmarked:
		return 0
	case proven == nil || slices.ContainsFunc(shapes, func(i int) bool { return proven[i].Meets(types) }):
		flying := int64(0)
		for _, m := range p.active {
			if !m.launched {
				flying++
			}
		}
		if most, bounded := place.WaveLeft(&in.Input, p.pool, cat, types); bounded {
			return max(0, min(n, most-flying))
		}
		return n
	case slices.ContainsFunc(p.active, func(m staticMember) bool { return !m.launched }):
		return 0
	}
	return 1
}

// staticPools lists them by name, without those that are not ready or that are being deleted.
func staticPools(s *planner.Snapshot) []*staticPool {
	var list []*staticPool
	byName := map[string]*staticPool{}
	for _, p := range s.World.NodePools() {
		if p.Spec.Replicas == nil || p.DeletionTimestamp != nil {
			continue
		}
		sp := &staticPool{pool: p, unready: offer.Unready(p) != nil}
		if sp.unready && s.Options.Revision < options.Revision8 {
			continue
		}
		list = append(list, sp)
		byName[p.Name] = sp
	}
	if len(list) == 0 {
		return nil
	}
	for _, n := range s.StateNodes() {
		if p := byName[n.NodePool]; p != nil && n.Claim != nil {
			p.count(s, n)
		}
	}
	for _, c := range s.InFlight() {
		if p := byName[c.NodePool]; p != nil {
			p.active = append(p.active, staticMember{name: c.Name, launched: c.Instance != nil})
		}
	}
	if s.Options.Revision < options.Revision1 {
		return list
	}
	for _, c := range s.World.NodeClaims() {
		if p := byName[c.Labels[karpv1.NodePoolLabelKey]]; p != nil && s.Ledger.Claim(c.Name) == nil && adopted(s, c) {
			p.active = append(p.active, staticMember{name: c.Name})
		}
	}
	return list
}

func (p *staticPool) count(s *planner.Snapshot, n *planner.StateNode) {
	switch {
	case !n.MarkedForDeletion:
		p.active = append(p.active, staticMember{name: n.Claim.Name, node: n, launched: true})
	case n.Claim.DeletionTimestamp == nil && s.CommandOf(n.Claim.Name) != "":
		p.replacing++
	default:
		p.going++
	}
}

// missing is how many claims to make, if the limit on nodes allows.
func (p *staticPool) missing() int64 {
	active, replicas := int64(len(p.active)), *p.pool.Spec.Replicas
	if p.unready || active+p.replacing >= replicas {
		return 0
	}
	return replicas - active
}

// limited reports that the pool may not have n more nodes.
func (p *staticPool) limited(n int64) bool { return n > p.headroom() }

// headroom is how many nodes limits.nodes still allows.
func (p *staticPool) headroom() int64 {
	q, limited := p.pool.Spec.Limits[offer.ResourceNodes]
	if !limited {
		return 1<<31 - 1
	}
	return resource.AmountOf(offer.ResourceNodes, q) - int64(len(p.active)) - p.replacing - p.going
}

// excess lists the claims to give up: not launched, then not initialized, then empty, then without a pod that
// must not be disrupted, then those that are cheapest to move.
func (p *staticPool) excess(s *planner.Snapshot) []staticMember {
	n := len(p.active) - int(*p.pool.Spec.Replicas)
	if n <= 0 {
		return nil
	}
	type ranked struct {
		staticMember
		class int
		cost  int64
	}
	var list []ranked
	for _, m := range p.active {
		c := s.Ledger.Claim(m.name)
		switch {
		case c == nil || c.Doomed != nil:
			continue // a claim that the Ledger does not know comes later
		case c.State == ledger.ClaimPlanned:
			n-- // it goes before any other, once its NodeClaim is made
			continue
		}
		class, cost := m.rank(s)
		list = append(list, ranked{m, class, cost})
	}
	slices.SortFunc(list, func(a, b ranked) int {
		return cmp.Or(cmp.Compare(a.class, b.class), cmp.Compare(a.cost, b.cost), cmp.Compare(a.name, b.name))
	})
	var out []staticMember
	for _, r := range list[:max(0, min(n, len(list)))] {
		out = append(out, r.staticMember)
	}
	return out
}

// planInput is what a plan starts from: the nodes and claims that static NodePools give up by it take no
// pods, and the pods on such nodes need another place.
func planInput(s *planner.Snapshot) *solve.Input {
	var nodes []string
	excess := map[string]bool{}
	for _, p := range staticPools(s) {
		for _, m := range p.excess(s) {
			if excess[m.name] = true; m.node != nil {
				nodes = append(nodes, m.node.Name)
			}
		}
	}
	in := inputOf(s, Scenario{Without: nodes})
	in.Planned = slices.DeleteFunc(in.Planned, func(p place.PlannedInput) bool { return excess[p.Claim.Name] })
	return in
}

// rank orders the claims of a pool that has too many: class first, then cost.
func (m *staticMember) rank(s *planner.Snapshot) (class int, cost int64) {
	if !m.launched {
		return 0, 0
	}
	if m.node == nil {
		return 1, 0
	}
	if class = 1; m.node.Initialized && s.Options.Revision >= options.Revision7 {
		class = 2 // one that may never work goes before one that does
	}
	for _, p := range m.node.Pods {
		switch {
		case planner.DoNotDisrupt(p, s.Now).InEffect:
			class = 4
		case p.Active() && !p.Class.DaemonSetOwned() && !p.Class.Static():
			class = max(class, 3)
			cost += planner.EvictionCost(p)
		}
	}
	return class, cost * lifetimeLeft(m.node, s.Now) / lifetimeWhole
}

const lifetimeWhole = int64(1000)

// lifetimeLeft is the share of a node's life that is left, in thousandths; all of it if it does not expire.
func lifetimeLeft(n *planner.StateNode, now time.Time) int64 {
	after := n.Claim.Spec.ExpireAfter.Duration
	if after == nil || *after <= 0 {
		return lifetimeWhole
	}
	left := int64(*after-now.Sub(n.Claim.CreationTimestamp.Time)) / int64(time.Millisecond)
	return max(0, min(lifetimeWhole, left*lifetimeWhole/max(1, int64(*after)/int64(time.Millisecond))))
}

// StaticReplacement is the claim that can replace one of a static NodePool's nodes, beside so many others
// that are about to be replaced: nil while the pool is not ready or has more than its replicas, or if its
// limit on nodes leaves no room for one more (full).
func StaticReplacement(s *planner.Snapshot, pool *karpv1.NodePool, others int64) (claim *ledger.PlannedClaim, full bool) {
	for _, p := range staticPools(s) {
		if p.pool.Name != pool.Name || p.unready || int64(len(p.active)) > *pool.Spec.Replicas {
			continue
		}
		if p.limited(1 + others) {
			return nil, true
		}
		claim = staticClaim(pool)
		if claim != nil && s.Options.Revision >= options.Revision1 {
			setCheapest(s, claim)
		}
		return claim, false
	}
	return nil, false
}

// staticClaim is a claim that matches the pool's template: no list of types, no requests. nil if the template
// cannot be parsed: the pool's own status says so.
func staticClaim(p *karpv1.NodePool) *ledger.PlannedClaim {
	base, err := offer.TemplateRequirements(p)
	if err != nil {
		return nil
	}
	t := &offer.Template{Pool: p, Name: p.Name, Base: base}
	spec := &p.Spec.Template.Spec
	c := ledger.PlannedClaim{
		NodePool: p.Name, NodePoolUID: p.UID, NodeClassRef: *spec.NodeClassRef, Labels: t.Labels(base), Annotations: t.Annotations(false),
		Taints: spec.Taints, StartupTaints: spec.StartupTaints, Requirements: base.Entries(), ExpireAfter: spec.ExpireAfter,
	}
	if g := spec.TerminationGracePeriod; g != nil {
		grace := time.Duration(g.Duration)
		c.TerminationGracePeriod = &grace
	}
	return &c
}

// setCheapest notes what a claim that names no types costs at least, if that is known.
func setCheapest(s *planner.Snapshot, c *ledger.PlannedClaim) {
	set, _ := requirement.FromClaim(c.Requirements) // as planned: it may name labels that users may not
	if cat := Catalog(s, c.NodePool, c.NodeClassRef.Name); cat != nil {
		if best := CheapestOffering(cat, set); best.MicroUSDPerHour > 0 {
			c.Cheapest = best
		}
	}
}

// CheapestOffering is the cheapest one that requirements allow, for a claim that names no types; without an
// instance type if there is none.
func CheapestOffering(cat *catalog.Catalog, set requirement.Set) (best ledger.OfferingPrice) {
	for _, t := range cat.Types {
		if !set.IntersectsSet(t.Requirements) {
			continue
		}
		for i := range t.Offerings {
			o := &t.Offerings[i]
			if o.Available && set.IntersectsSet(o.Requirements) && (best.InstanceType == "" || o.Price < best.MicroUSDPerHour) {
				best = ledger.OfferingPrice{InstanceType: t.Name, Zone: o.Zone, CapacityType: o.CapacityType, MicroUSDPerHour: o.Price}
			}
		}
	}
	return best
}

func (d *decision) addExcess(p *karpv1.NodePool, m staticMember) {
	c := d.snapshot.Ledger.Claim(m.name)
	d.payload.Excess = append(d.payload.Excess, ledger.ExcessClaim{Claim: m.name, UID: c.UID, Reason: claim.ReasonScaledDown})
	d.touchPool(p.Name)
	d.expects[ledger.ClaimAggregate(m.name)] = true
	d.subjects["claim/"+m.name] = true
}

// touchPool records that the decision relies on a pool's capacity and changes it.
func (d *decision) touchPool(name string) {
	pool := ledger.PoolAggregate(name)
	d.expects[pool], d.advances[pool], d.subjects[pool] = true, true, true
}
