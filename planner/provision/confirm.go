package provision

import (
	"slices"

	"k8s.io/apimachinery/pkg/types"

	"millwright/planner"
	"millwright/planner/ledger"
	"millwright/planner/provision/internal/demand"
	"millwright/planner/provision/internal/offer"
	"millwright/planner/provision/internal/place"
	"millwright/planner/provision/internal/refusal"
	"millwright/planner/provision/internal/solve"
)

// Search is a plan and the basis of its Snapshot.
type Search struct {
	Basis    planner.Basis
	Decision *planner.Decision
	Round    Round
}

// BasisOf is the basis of the Snapshot of a confirmed plan's search.
func BasisOf(b *ledger.SearchBasis) planner.Basis {
	return planner.Basis{Position: b.Position, LedgerSeq: b.LedgerSeq, Now: b.Now, OptionsSeq: b.OptionsSeq}
}

// Confirm takes over, on a fresh Snapshot, the parts of a plan that still hold after a long search (DESIGN
// §4). Pods that are gone, bound or nominated are dropped; nodes and claims must still exist and have room;
// the NodePool of a new or widened claim must be unchanged and its limits must allow the claim, which keeps
// the types that are still available. A pod that has lost its place gets another one; pods that the search
// has not seen get theirs in the next round, as do changes of the topology. Static NodePools are decided on
// the fresh Snapshot alone. The Decision, a ProvisioningPlanned or ProvisioningWidened that names the search,
// is nil if nothing is left to record.
func Confirm(found Search, s *planner.Snapshot) (*planner.Decision, Round) {
	plan, ok := found.Decision.Payload.(*ledger.ProvisioningPlanned)
	if !ok {
		return nil, Round{}
	}
	sol := solve.New(planInput(s))
	sol.Plain = plan.Plain
	sol.Place(follow(sol, found, plan), &solve.Mode{})
	why := refusal.New(sol)
	why.ExplainAll()
	d, round := decide(s, sol, why)
	if d != nil {
		b := found.Basis
		d.Payload.(*ledger.ProvisioningPlanned).Search = &ledger.SearchBasis{Position: b.Position, LedgerSeq: b.LedgerSeq, Now: b.Now, OptionsSeq: b.OptionsSeq}
	}
	return d, round
}

// follow gives each pod the place that the plan gave it, and returns those that have lost it.
func follow(s *solve.Solver, found Search, plan *ledger.ProvisioningPlanned) (waiting []*solve.Item) {
	f := newFollower(s, found, plan)
	for i := range plan.Claims {
		f.placePods(f.claims[i], plan.Claims[i].Pods)
	}
	for i := range plan.Widened {
		f.placePods(s.ByTarget[place.Target{Claim: plan.Widened[i].Claim}], plan.Widened[i].Content.Pods)
	}
	for _, it := range s.Items {
		if it.Bin == nil && !f.placePod(it) {
			waiting = append(waiting, it)
		}
	}
	for _, b := range f.claims {
		if b != nil && len(b.Added) == 0 {
			f.giveUp(b)
		}
	}
	return waiting
}

// follower knows what the plan says about each pod, and has its claims as bins: nil for those that can no
// longer be made.
type follower struct {
	*solve.Solver
	verdicts map[types.UID]*PodVerdict
	items    map[types.UID]*solve.Item
	claims   []*place.Bin
}

func newFollower(s *solve.Solver, found Search, plan *ledger.ProvisioningPlanned) *follower {
	f := &follower{Solver: s, verdicts: map[types.UID]*PodVerdict{}, items: map[types.UID]*solve.Item{}, claims: make([]*place.Bin, len(plan.Claims))}
	for i := range found.Round.Verdicts {
		v := &found.Round.Verdicts[i]
		f.verdicts[v.Pod.UID] = v
	}
	for _, it := range s.Items {
		f.items[it.Pod.UID] = it
	}
	s.Exclude()
	for _, x := range plan.Excluded {
		for _, pod := range x.Pods {
			if it := f.items[pod.UID]; it != nil {
				s.ExcludeFor(it, x.Node)
			}
		}
	}
	for i := range plan.Widened {
		f.widen(&plan.Widened[i], found.Basis.LedgerSeq)
	}
	for i := range plan.Claims {
		f.claims[i] = f.openAgain(&plan.Claims[i])
	}
	return f
}

// openAgain opens a claim of a plan; nil if that is no longer possible, or if it is not for pods.
func (f *follower) openAgain(c *ledger.PlannedClaim) *place.Bin {
	if len(c.InstanceTypes) == 0 {
		return nil
	}
	o := f.Resume(c)
	if o == nil || o.Template.Limits.Narrow(o.Template.Catalog, o.Types) != nil {
		return nil
	}
	holds, ok := f.Reserved.Holdable(o.State, o.Types, nil)
	if !ok {
		return nil
	}
	f.Reserved.Hold(o, holds)
	o.Reserved = offer.CapacityMax(o.Template.Catalog, o.Types)
	o.Template.Limits.Reserve(o.Reserved, 1)
	b := &place.Bin{Place: o}
	f.Add(b)
	return b
}

// giveUp removes a claim that was opened and has no pods.
func (f *follower) giveUp(b *place.Bin) {
	b.Gone = true
	b.Open().Template.Limits.Reserve(b.Open().Reserved.Negated(), -1)
	f.Reserved.Hold(b.Open(), nil)
}

// widen reopens a claim that the plan widens, with its new content, if it can still be widened; pods that fit
// it unwidened are placed there first, unless that gives up a preference that the new content meets. at is
// the Ledger's sequence of the search.
func (f *follower) widen(w *ledger.WidenedClaim, at uint64) {
	b := f.ByTarget[place.Target{Claim: w.Claim}]
	if b == nil {
		return
	}
	if c := b.Planned(); c == nil || !c.Uncreated || c.Claim.ContentSeq() > at {
		return
	}
	wide := f.Resume(&w.Content)
	for _, ref := range w.Content.Pods {
		it := f.items[ref.UID]
		if it == nil || it.Bin != nil || len(it.Class.Invalid) > 0 {
			continue
		}
		n := len(it.Class.Levels)
		if wide != nil {
			n = min(n, wide.Covers(it.Class.Class)+1)
		}
		f.Keep(b, it, n)
	}
	var own []*solve.Item
	for _, p := range b.Added {
		own = append(own, f.items[p.UID])
	}
	f.ReopenOne(b, own, &w.Content)
}

// placePods puts the pods, in this order, into a claim that is being built.
func (f *follower) placePods(b *place.Bin, pods []ledger.PodRef) {
	if b == nil || b.Open() == nil {
		return
	}
	for _, ref := range pods {
		if it := f.items[ref.UID]; it != nil && it.Bin == nil && len(it.Class.Invalid) == 0 {
			f.acceptAgain(b, it)
		}
	}
}

// placePod puts a pod where the plan has it; false if that is no longer possible.
func (f *follower) placePod(it *solve.Item) bool {
	v := f.verdicts[it.Pod.UID]
	switch {
	case len(it.Class.Invalid) > 0:
		it.Reasons = it.Class.Invalid
		return true
	case v == nil:
		b := f.PlacedBefore(it)
		it.Unseen = b == nil || !f.Keep(b, it, len(it.Class.Levels))
		return true
	case len(v.Reasons) > 0:
		it.Reasons = v.Reasons
		return true
	case v.NewClaim > 0:
		return false // its claim cannot be made, or not with this pod
	}
	b := f.ByTarget[place.Target{Node: v.Node, Claim: v.Claim}]
	if b == nil || b.Open() != nil {
		return false
	}
	if n := b.Node(); n != nil && slices.Contains(it.Excluded, n.State.Name) {
		return false
	}
	return f.Keep(b, it, len(it.Class.Levels))
}

// acceptAgain puts a pod into an open claim whose requirements cover it already.
func (f *follower) acceptAgain(b *place.Bin, it *solve.Item) bool {
	o, c := b.Open(), it.Class
	total := o.Used.Add(c.Requests)
	if len(c.Ports) > 0 && demand.Clash(c.Ports, b.Ports) {
		return false
	}
	i := o.Covers(c.Class)
	if i == len(c.Levels) || !f.Become(b, o, o.State, &total, slices.Concat(b.Ports, c.Ports)) {
		return false
	}
	f.Put(b, it, &solve.Mode{})
	it.Level = i
	return true
}
