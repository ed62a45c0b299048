package status

import (
	"slices"
	"time"

	karpv1 "millwright/api/karpenter/v1"
	"millwright/planner"
	"millwright/planner/catalog"
	"millwright/planner/claim"
	"millwright/planner/disrupt"
	"millwright/planner/world"
	"millwright/services/internal/service"
)

const (
	// MarksEvery is how often NodeClaims are compared with what they were made of, and their quiet time with the clock.
	MarksEvery = time.Second
	// marksLookMax bounds how many are compared at once: of 5,000 each is every ten seconds.
	marksLookMax = 500
	// MarksMax bounds how many NodeClaims get other marks at once: pods that come and go on all nodes must not keep the API
	// server from what has to be done.
	MarksMax = 50
)

// StepMarks finds out which NodeClaims have drifted and which are quiet. What it found reaches the objects with the rest of
// their status.
func (k *Keeper) StepMarks(now time.Time) {
	if now.Before(k.effects.Retries.At("marks")) {
		return
	}
	k.effects.Hold("marks", MarksEvery)
	err := k.host.Snapshot(service.ForEffects, func(snap *planner.Snapshot) error {
		k.mark(k.newDriftReferences(snap.World), now)
		return nil
	})
	if err != nil {
		k.mark(k.newDriftReferences(nil), now)
	}
}

// mark judges the claims in turn, beginning behind the last one for which there was time and room.
func (k *Keeper) mark(y *driftReferences, now time.Time) {
	claims := k.deps.Cache.NodeClaims()
	first := slices.IndexFunc(claims, func(o *karpv1.NodeClaim) bool { return o.Name > k.marked })
	changed := 0
	for i := range min(len(claims), marksLookMax) {
		o := claims[(max(first, 0)+i)%len(claims)]
		o = k.newest(o, now)
		m, ok := y.marksOf(o, now)
		if !ok {
			k.marked = o.Name
			continue
		}
		if !m.ShownBy(o) {
			if changed++; changed > MarksMax {
				return
			}
		}
		k.deps.Listener.SetMarks(o.Name, m)
		k.marked = o.Name
	}
}

// driftReferences are what NodeClaims are measured with; pools and classes are read once for all their claims.
type driftReferences struct {
	k *Keeper
	// world is nil while there is none to rely on.
	world   *world.World
	pools   map[string]*poolReference
	classes map[string]*classReference
}

func (k *Keeper) newDriftReferences(w *world.World) *driftReferences {
	return &driftReferences{k: k, world: w, pools: map[string]*poolReference{}, classes: map[string]*classReference{}}
}

// marksOf returns what can be said of a claim; false: nothing, because it is going, or not of a NodePool that is there.
func (y *driftReferences) marksOf(o *karpv1.NodeClaim, now time.Time) (claim.Marks, bool) {
	name := o.Labels[karpv1.NodePoolLabelKey]
	if !claim.Managed(o) || !o.DeletionTimestamp.IsZero() || name == "" {
		return claim.Marks{}, false
	}
	pool := y.pool(name)
	if pool == nil {
		return claim.Marks{}, false
	}
	var m claim.Marks
	m.Drift, m.DriftKnown = y.drift(o, pool, now)
	if y.world != nil {
		m.PodEvent = y.world.LastPodEvent(o.Status.NodeName)
		m.Quiet, m.QuietKnown = y.quiet(o, pool.NodePool, now), true
	}
	return m, true
}

// quiet: the node has been quiet for as long as its NodePool asks (reference: disruption §1). Nodes of static NodePools are
// never consolidated.
func (y *driftReferences) quiet(o *karpv1.NodeClaim, p *karpv1.NodePool, now time.Time) bool {
	if p.Spec.Replicas != nil || p.Spec.Disruption.ConsolidateAfter.IsNever() {
		return false
	}
	since, ok := disrupt.QuietSince(y.world, o, o.Status.NodeName)
	return ok && !now.Before(since.Add(disrupt.ConsolidateAfter(p)))
}

// pool returns nil for a NodePool that is not there or cannot be read.
func (y *driftReferences) pool(name string) *poolReference {
	if p, ok := y.pools[name]; ok {
		return p
	}
	p := y.k.deps.Cache.NodePool(name)
	if p == nil || p.Unreadable != "" {
		y.pools[name] = nil
		return nil
	}
	y.pools[name] = newPoolReference(p)
	return y.pools[name]
}

// class returns nil for a NodeClass that is not there or is going: then nothing of it has drifted.
func (y *driftReferences) class(name string) *classReference {
	if c, ok := y.classes[name]; ok {
		return c
	}
	nc := y.k.deps.Cache.NodeClass(name)
	if nc == nil || !nc.DeletionTimestamp.IsZero() {
		y.classes[name] = nil
		return nil
	}
	var cat *catalog.Catalog
	if y.world != nil {
		cat = y.world.Catalog(name)
	}
	y.classes[name] = newClassReference(y.k.deps.Hasher, nc, cat)
	return y.classes[name]
}
