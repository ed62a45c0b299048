package place

import (
	"slices"

	"millwright/planner/bitset"
	"millwright/planner/catalog"
	"millwright/planner/ledger"
	"millwright/planner/options"
	"millwright/planner/provision/internal/demand"
	"millwright/planner/provision/internal/offer"
	"millwright/planner/requirement"
	"millwright/planner/resource"
	"millwright/planner/topology"
)

// PlannedClaim is a claim of the Ledger: its spec is fixed, so a pod must fit whatever it becomes.
type PlannedClaim struct {
	*PlannedInput
	set   requirement.Set
	types []*catalog.InstanceType
	// free is what the smallest of its types still holds.
	free   resource.Vector
	covers map[int]bool // by alternative id
	// ports that DaemonSets take on some of its types.
	ports []demand.HostPort
}

// newPlannedClaim determines what a planned claim may become.
func (l *Layout) newPlannedClaim(p *PlannedInput) *PlannedClaim {
	plan := p.Claim.Planned
	set, _ := requirement.FromClaim(plan.Requirements)
	if !p.Uncreated && l.in.Options.Revision >= options.Revision1 { // else it may still be given others
		set = set.Intersection(requirement.FromLabels(plan.Labels))
	}
	pc := &PlannedClaim{PlannedInput: p, set: set, covers: map[int]bool{}}
	names := plan.InstanceTypes
	if got := p.Claim.Instance; got != nil {
		names = []string{got.InstanceType}
		pc.set = pc.set.Intersection(launchedRequirements(got))
	}
	if len(names) == 0 { // of a static NodePool: whatever its template allows
		fit := offer.Launchable(p.Catalog, pc.set)
		for i := range fit.Members() {
			names = append(names, p.Catalog.Types[i].Name)
		}
	}
	for _, name := range names {
		t := p.Catalog.Type(name)
		if t == nil {
			continue
		}
		room := t.Allocatable.Sub(l.daemonsOn(pc.set, plan, p.Catalog, t))
		if len(pc.types) == 0 {
			pc.free = room
		} else {
			pc.free = pc.free.Min(room)
		}
		pc.types = append(pc.types, t)
	}
	if l.in.Options.Revision >= options.Revision1 {
		pc.ports = pc.daemonPorts(l.in.Daemons)
	}
	return pc
}

// daemonPorts are the host ports of the DaemonSets that run on some of the claim's types.
func (p *PlannedClaim) daemonPorts(daemons []offer.DaemonSet) (ports []demand.HostPort) {
	for i := range daemons {
		d := &daemons[i]
		if len(d.Ports) == 0 {
			continue
		}
		on := offer.DaemonTypes(d, offer.FinishedLabels(p.set), p.Claim.Planned.Taints, p.Catalog)
		if slices.ContainsFunc(p.types, func(t *catalog.InstanceType) bool { return on.Has(t.Index) }) {
			ports = append(ports, d.Ports...)
		}
	}
	return ports
}

// Promise makes a claim that is being built one that is planned so, with the pods that it has.
func (l *Layout) Promise(b *Bin, name string, plan *ledger.PlannedClaim) {
	o := b.Open()
	p := l.newPlannedClaim(&PlannedInput{Claim: &ledger.Claim{Name: name, NodePool: plan.NodePool, Planned: plan}, Catalog: o.Template.Catalog})
	p.free = p.free.Sub(o.Used)
	b.Place = p
}

func (l *Layout) daemonsOn(set requirement.Set, plan *ledger.PlannedClaim, c *catalog.Catalog, t *catalog.InstanceType) resource.Vector {
	var v resource.Vector
	full := offer.FinishedLabels(set)
	for i := range l.in.Daemons {
		if offer.DaemonTypes(&l.in.Daemons[i], full, plan.Taints, c).Has(t.Index) {
			v = v.Add(l.in.Daemons[i].Requests)
		}
	}
	return v
}

func (p *PlannedClaim) accept(l *Layout, b *Bin, lv *demand.Level, keeping bool) Outcome {
	c := lv.Class
	if len(p.types) == 0 || !c.Requests.Fits(p.free) {
		return Full
	}
	if demand.Untolerated(p.Claim.Planned.Taints, c.Pod.Spec.Tolerations, lv.StrictTaints) != nil {
		return Never
	}
	if !p.coversAny(lv.Alternatives) || len(c.Ports) > 0 && (demand.Clash(c.Ports, b.Ports) || demand.Clash(c.Ports, p.ports)) {
		return Never
	}
	if !keeping {
		if o := l.fixedAllows(p, lv); o != Accepted {
			return o
		}
	}
	l.touch(b)
	p.Take(b, c)
	return Accepted
}

// Take puts a pod there without checking.
func (p *PlannedClaim) Take(b *Bin, c *demand.Class) {
	p.free = p.free.Sub(c.Requests)
	b.Ports = append(b.Ports, c.Ports...)
}

func (p *PlannedClaim) domains(d *topology.Domains) bitset.Set {
	m := d.NewMask()
	if r, ok := p.set.Lookup(d.Key); ok && !r.Complement() {
		for _, v := range r.Values() {
			if i := d.Index(v); i >= 0 {
				m.Add(i)
			}
		}
		return m
	}
	for i := range d.Len() {
		if slices.ContainsFunc(p.types, func(t *catalog.InstanceType) bool {
			own, ok := t.Requirements.Lookup(d.Key)
			return ok && own.Has(d.Name(i))
		}) {
			m.Add(i)
		}
	}
	return m
}

func (p *PlannedClaim) mayLack(d *topology.Domains) bool {
	if r, ok := p.set.Lookup(d.Key); ok && !r.Complement() {
		return false
	}
	return slices.ContainsFunc(p.types, func(t *catalog.InstanceType) bool { return len(t.Requirements.Get(d.Key).Values()) == 0 })
}

func (p *PlannedClaim) certain(key string, _ *demand.NodeFilter) []string {
	if r, ok := p.set.Lookup(key); ok && !r.Complement() {
		return r.Values()
	}
	return nil
}

func (p *PlannedClaim) passes(f *demand.NodeFilter) bool {
	return f.Claim(p.set, p.Claim.Planned.Taints)
}

func (p *PlannedClaim) Target() Target { return Target{Claim: p.Claim.Name} }

func (p *PlannedClaim) saved() Place {
	old := *p
	return &old
}

func (p *PlannedClaim) coversAny(alternatives []*demand.Alternative) bool {
	for _, a := range alternatives {
		ok, known := p.covers[a.Id]
		if !known {
			ok = p.coversSet(a.Set)
			p.covers[a.Id] = ok
		}
		if ok {
			return true
		}
	}
	return false
}

// coversSet reports that every node the claim may become meets the pod's requirements.
func (p *PlannedClaim) coversSet(pod requirement.Set) bool {
	for _, r := range pod.Requirements() {
		claim, defined := p.set.Lookup(r.Key())
		for _, t := range p.types {
			own, has := t.Requirements.Lookup(r.Key())
			switch {
			case has && defined:
				own = own.Intersection(claim)
			case defined:
				own = claim
			case !has:
				own = requirement.DoesNotExist(r.Key())
			}
			if !within(own, r) {
				return false
			}
		}
	}
	return true
}

// within reports that whatever have allows, want allows too.
func within(have, want requirement.Requirement) bool {
	if have.Complement() {
		return !have.Negative() && want.Equal(requirement.Exists(want.Key()))
	}
	if len(have.Values()) == 0 {
		return want.Negative()
	}
	for _, v := range have.Values() {
		if !want.Has(v) {
			return false
		}
	}
	return true
}
