package provision

import (
	"millwright/planner/catalog"
	"millwright/planner/ledger"
	"millwright/planner/requirement"
	"millwright/planner/resource"
)

// plannedBin is a claim of the Ledger: its spec stands, so a pod must fit whatever it becomes.
type plannedBin struct {
	*plannedInput
	set    requirement.Set
	types  []*catalog.InstanceType
	covers map[int]bool // by alternative id
}

// plannedBin reads what a planned claim may become. Its room is what the smallest of its types holds.
func (s *solver) plannedBin(p *plannedInput) *bin {
	plan := p.claim.Planned
	set, _ := requirement.FromClaim(plan.Requirements)
	pb := &plannedBin{plannedInput: p, set: set, covers: map[int]bool{}}
	names := plan.InstanceTypes
	if got := p.claim.Instance; got != nil {
		names = []string{got.InstanceType}
		pb.set = pb.set.Intersection(launchedRequirements(got))
	}
	if len(names) == 0 { // of a static NodePool: whatever its template allows
		fit := launchable(p.catalog, pb.set)
		for i := range fit.Members() {
			names = append(names, p.catalog.Types[i].Name)
		}
	}
	b := &bin{planned: pb}
	var free resource.Vector
	for _, name := range names {
		t := p.catalog.Type(name)
		if t == nil {
			continue
		}
		room := t.Allocatable.Sub(s.daemonsOn(pb.set, plan, p.catalog, t))
		if len(pb.types) == 0 {
			free = room
		} else {
			free = free.Min(room)
		}
		pb.types = append(pb.types, t)
	}
	b.free = free
	return b
}

func (s *solver) daemonsOn(set requirement.Set, plan *ledger.PlannedClaim, c *catalog.Catalog, t *catalog.InstanceType) resource.Vector {
	var v resource.Vector
	full := daemonSet(set)
	for i := range s.in.daemons {
		if daemonTypes(&s.in.daemons[i], full, plan.Taints, c).Has(t.Index) {
			v = v.Add(s.in.daemons[i].requests)
		}
	}
	return v
}

func (s *solver) acceptPlanned(b *bin, lv *level) outcome {
	c := lv.class
	if len(b.planned.types) == 0 || !c.requests.Fits(b.free) {
		return full
	}
	if untolerated(b.planned.claim.Planned.Taints, c.pod.Spec.Tolerations, lv.strictTaints) != nil {
		return never
	}
	if !b.planned.coversAny(lv.alternatives) || len(c.ports) > 0 && clash(c.ports, b.ports) {
		return never
	}
	if !s.keeping {
		if o := s.fixedAllows(b, lv); o != accepted {
			return o
		}
	}
	s.touch(b)
	b.free = b.free.Sub(c.requests)
	b.ports = append(b.ports, c.ports...)
	return accepted
}

func (p *plannedBin) coversAny(alternatives []*alternative) bool {
	for _, a := range alternatives {
		ok, known := p.covers[a.id]
		if !known {
			ok = p.coversSet(a.set)
			p.covers[a.id] = ok
		}
		if ok {
			return true
		}
	}
	return false
}

// coversSet reports that every node the claim may become meets the pod's requirements.
func (p *plannedBin) coversSet(pod requirement.Set) bool {
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
