package provision

import (
	"slices"

	"k8s.io/apimachinery/pkg/types"

	"millwright/planner"
	"millwright/planner/ledger"
)

// Search is a plan and where its Snapshot stood.
type Search struct {
	Basis    planner.Basis
	Decision *planner.Decision
	Round    Round
}

// BasisOf is where the Snapshot of a confirmed plan's search stood.
func BasisOf(b *ledger.SearchBasis) planner.Basis {
	return planner.Basis{Position: b.Position, LedgerSeq: b.LedgerSeq, Now: b.Now, OptionsSeq: b.OptionsSeq}
}

// Confirm takes over on a fresh Snapshot what still holds of a plan whose search took long (DESIGN §4). Pods that are gone, bound or
// nominated are dropped; nodes and claims must still be there and have room; the NodePool of a new or widened claim must
// still say the same and its limits allow it; of its types those stay that can still be had. A pod that has lost its place gets
// another one; pods that the search has not seen get theirs in the next round, as do changes of the topology. Static
// NodePools are decided on the fresh Snapshot alone. The Decision, a ProvisioningPlanned or ProvisioningWidened that names the search,
// is nil if nothing is left to record.
func Confirm(found Search, s *planner.Snapshot) (*planner.Decision, Round) {
	plan, ok := found.Decision.Payload.(*ledger.ProvisioningPlanned)
	if !ok {
		return nil, Round{}
	}
	sol := newSolver(inputOf(s, Scenario{}))
	sol.plain = plan.Plain
	sol.place(sol.follow(found, plan))
	sol.explain()
	d, round := decide(s, sol)
	if d != nil {
		b := found.Basis
		d.Payload.(*ledger.ProvisioningPlanned).Search = &ledger.SearchBasis{Position: b.Position, LedgerSeq: b.LedgerSeq, Now: b.Now, OptionsSeq: b.OptionsSeq}
	}
	return d, round
}

// follow gives each pod the place that the plan gave it, and returns those that have lost it.
func (s *solver) follow(found Search, plan *ledger.ProvisioningPlanned) (waiting []*item) {
	s.keeping = true
	defer func() { s.keeping = false }()
	f := s.newFollower(found, plan)
	for i := range plan.Claims {
		f.all(f.claims[i], plan.Claims[i].Pods)
	}
	for i := range plan.Widened {
		f.all(s.byTarget[target{claim: plan.Widened[i].Claim}], plan.Widened[i].Content.Pods)
	}
	for _, it := range s.items {
		if it.bin == nil && !f.one(it) {
			waiting = append(waiting, it)
		}
	}
	for _, b := range f.claims {
		if b != nil && len(b.added) == 0 {
			s.giveUp(b)
		}
	}
	return waiting
}

// follower knows what the plan says of each pod, and has its claims as bins: nil for those that can't be made any more.
type follower struct {
	*solver
	verdicts map[types.UID]*PodVerdict
	items    map[types.UID]*item
	claims   []*bin
}

func (s *solver) newFollower(found Search, plan *ledger.ProvisioningPlanned) *follower {
	f := &follower{solver: s, verdicts: map[types.UID]*PodVerdict{}, items: map[types.UID]*item{}, claims: make([]*bin, len(plan.Claims))}
	for i := range found.Round.Verdicts {
		v := &found.Round.Verdicts[i]
		f.verdicts[v.Pod.UID] = v
	}
	for _, it := range s.items {
		f.items[it.pod.UID] = it
	}
	s.exclude()
	for _, x := range plan.Excluded {
		for _, pod := range x.Pods {
			if it := f.items[pod.UID]; it != nil {
				it.excluded = append(it.excluded, x.Node)
				it.class.exclude(x.Node)
				s.newlyExcluded = append(s.newlyExcluded, exclusion{x.Node, it})
			}
		}
	}
	for i := range plan.Widened {
		f.widen(&plan.Widened[i], found.Basis.LedgerSeq)
	}
	for i := range plan.Claims {
		f.claims[i] = s.again(&plan.Claims[i])
	}
	return f
}

// again opens a claim of a plan; nil if that is not possible any more, or if it is not for pods.
func (s *solver) again(c *ledger.PlannedClaim) *bin {
	if len(c.InstanceTypes) == 0 {
		return nil
	}
	o := s.resume(c)
	if o == nil || o.template.limits.narrow(o.template.catalog, o.types) != nil {
		return nil
	}
	holds, ok := s.holdable(o.state, o.types, nil)
	s.missed()
	if !ok {
		return nil
	}
	s.hold(o, holds)
	o.reserved = capacityMax(o.template.catalog, o.types)
	o.template.limits.reserve(o.reserved, 1)
	b := &bin{open: o}
	s.add(b)
	return b
}

// giveUp takes back a claim that was opened and has no pods.
func (s *solver) giveUp(b *bin) {
	b.gone = true
	b.open.template.limits.reserve(b.open.reserved.Negated(), -1)
	s.hold(b.open, nil)
}

// widen reopens a claim that the plan widens with what it is to be, if it can be widened still; pods that fit it as it is go there before,
// but not by giving up a preference that is kept by what it is to be. at is the Ledger's sequence of the search.
func (f *follower) widen(w *ledger.WidenedClaim, at uint64) {
	b := f.byTarget[target{claim: w.Claim}]
	if b == nil || b.planned == nil || !b.planned.uncreated || b.planned.claim.ContentSeq() > at {
		return
	}
	wide := f.resume(&w.Content)
	for _, ref := range w.Content.Pods {
		it := f.items[ref.UID]
		if it == nil || it.bin != nil || len(it.class.invalid) > 0 {
			continue
		}
		n := len(it.class.levels)
		if wide != nil {
			n = min(n, wide.covers(it.class)+1)
		}
		f.acceptLevels(b, it, n)
	}
	var own []*item
	for _, p := range b.added {
		own = append(own, f.items[p.UID])
	}
	f.reopenOne(b, own, &w.Content)
}

// all puts the pods, in this order, into a claim that is being built.
func (f *follower) all(b *bin, pods []ledger.PodRef) {
	if b == nil || b.open == nil {
		return
	}
	for _, ref := range pods {
		if it := f.items[ref.UID]; it != nil && it.bin == nil && len(it.class.invalid) == 0 {
			f.acceptAgain(b, it)
		}
	}
}

// one puts a pod where the plan has it; false if that is not possible any more.
func (f *follower) one(it *item) bool {
	v := f.verdicts[it.pod.UID]
	switch {
	case len(it.class.invalid) > 0:
		it.reasons = it.class.invalid
		return true
	case v == nil:
		b := f.placedBefore(it)
		it.unseen = b == nil || !f.acceptAnyLevel(b, it)
		return true
	case len(v.Reasons) > 0:
		it.reasons = v.Reasons
		return true
	case v.NewClaim > 0:
		return false // its claim can't be made, or not with this pod
	}
	b := f.byTarget[target{v.Node, v.Claim}]
	if b == nil || b.open != nil || b.node != nil && slices.Contains(it.excluded, b.node.Name) {
		return false
	}
	return f.acceptAnyLevel(b, it)
}

// acceptAgain puts a pod into an open claim whose requirements cover it already.
func (s *solver) acceptAgain(b *bin, it *item) bool {
	o, c := b.open, it.class
	total := o.used.Add(c.requests)
	if len(c.ports) > 0 && clash(c.ports, b.ports) {
		return false
	}
	ports := slices.Concat(b.ports, c.ports)
	i := o.covers(c)
	if i == len(c.levels) || !s.fits(o, o.state, &total, ports) {
		return false
	}
	holds, ok := s.holdable(o.state, s.buffer[:len(o.types)], o.holds)
	if s.missed(); !ok {
		return false
	}
	s.hold(o, holds)
	o.used, b.ports = total, ports
	o.keep(s.buffer[:len(o.types)])
	s.put(b, it)
	it.level = i
	return true
}

// covers is the first level of a class that the claim's requirements cover as they are; the number of levels if they cover none.
func (o *openClaim) covers(c *class) int {
	i := slices.IndexFunc(c.levels, func(lv *level) bool {
		return untolerated(o.template.taints(), c.pod.Spec.Tolerations, lv.strictTaints) == nil &&
			slices.ContainsFunc(lv.alternatives, func(a *alternative) bool { return o.state.narrow(a) == o.state })
	})
	if i < 0 {
		return len(c.levels)
	}
	return i
}
