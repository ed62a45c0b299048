package status

import (
	"context"
	"slices"
	"time"

	karpv1 "millwright/api/karpenter/v1"
	"millwright/planner"
	"millwright/planner/claim"
	"millwright/planner/disrupt/quiet"
	"millwright/planner/ledger"
	"millwright/planner/world"
	"millwright/services/internal/service"
)

const (
	// MarksEvery is how often NodeClaims are compared with what they were made of, and their quiet time with
	// the clock.
	MarksEvery = time.Second
	// marksLookMax bounds how many are compared at once: of 5,000 each is every ten seconds.
	marksLookMax = 500
	// MarksMax bounds how many NodeClaims get other marks at once: pods that come and go on all nodes must
	// not keep the API server from what has to be done.
	MarksMax = 50
)

// look is one look at NodeClaims: which of them have drifted, and which are quiet.
type look struct {
	*facts
	// world is nil while there is none to rely on.
	world *world.World
	now   time.Time
	basis planner.Basis
}

// StepMarks finds out which NodeClaims have drifted and which are quiet. A verdict on drift is recorded
// before it is told; what was found then reaches the objects with the rest of their status.
func (k *Keeper) StepMarks(ctx context.Context, now time.Time) error {
	if now.Before(k.effects.Retries.At("marks", now)) {
		return nil
	}
	k.effects.Hold("marks", MarksEvery)
	l, option := &look{now: now}, false
	_ = k.host.Snapshot(service.ForEffects, func(snap *planner.Snapshot) error { // without a World less is known
		l.world, option = snap.World, snap.Options.Rebalance == planner.RebalanceReplace
		return nil
	})
	err := k.host.Ledger(func(led *ledger.Ledger) error {
		l.basis = planner.Basis{LedgerSeq: led.Seq(), Now: planner.NowOf(now, led.LastTime()), OptionsSeq: led.OptionsSeq()}
		return nil
	})
	if err != nil {
		return err
	}
	l.facts = k.newFacts(l.world, l.basis.Now)
	l.rebalanceOption = option
	return k.mark(ctx, l)
}

// mark judges the claims in turn, beginning behind the last one for which there was time and room.
func (k *Keeper) mark(ctx context.Context, l *look) error {
	claims := k.inTurn(l)
	verdicts := l.judge()
	var told []*karpv1.NodeClaim
	marks := map[string]claim.Marks{}
	changed := 0
	for _, o := range claims {
		m, ok := l.marksOf(o, verdicts)
		if ok && !m.ShownBy(o) {
			if changed++; changed > MarksMax {
				break
			}
		}
		k.marked = o.Name
		if ok {
			told, marks[o.Name] = append(told, o), m
		}
	}
	unrecorded, err := k.record(ctx, l, told, marks)
	for _, o := range told {
		m := marks[o.Name]
		m.DriftKnown = m.DriftKnown && !unrecorded[o.Name]
		k.deps.Listener.SetMarks(o.Name, m)
	}
	return err
}

// inTurn are the claims to look at now, in the newest form known.
func (k *Keeper) inTurn(l *look) []*karpv1.NodeClaim {
	all := k.deps.Cache.NodeClaims()
	first := max(slices.IndexFunc(all, func(o *karpv1.NodeClaim) bool { return o.Name > k.marked }), 0)
	claims := make([]*karpv1.NodeClaim, 0, min(len(all), marksLookMax))
	for i := range cap(claims) {
		o := k.newest(all[(first+i)%len(all)], l.now)
		claims = append(claims, o)
		if claim.Managed(o) && o.DeletionTimestamp.IsZero() {
			l.addClaim(o)
		}
	}
	return claims
}

// marksOf returns what can be said of a claim; false: nothing, because it is going, or not of a NodePool that
// is there.
func (l *look) marksOf(o *karpv1.NodeClaim, verdicts map[string]verdict) (claim.Marks, bool) {
	v, ok := verdicts[o.Name]
	if !ok {
		return claim.Marks{}, false
	}
	m := claim.Marks{Drift: v.Reason, DriftKnown: v.Known}
	if l.world != nil {
		m.PodEvent = l.world.LastPodEvent(o.Status.NodeName)
		m.Quiet, m.QuietKnown = l.quiet(o, v.pool), true
	}
	return m, true
}

// quiet: the node has been quiet for as long as its NodePool asks (reference: disruption §1). Nodes of static
// NodePools are never consolidated.
func (l *look) quiet(o *karpv1.NodeClaim, p *karpv1.NodePool) bool {
	if p.Spec.Replicas != nil || p.Spec.Disruption.ConsolidateAfter.IsNever() {
		return false
	}
	since, ok := quiet.Since(l.world, o, o.Status.NodeName)
	return ok && !l.now.Before(since.Add(quiet.After(p)))
}
