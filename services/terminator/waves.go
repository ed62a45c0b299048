package terminator

import (
	"cmp"
	"slices"
	"time"

	"millwright/planner"
	"millwright/planner/ledger"
	"millwright/planner/provision"
	"millwright/planner/world"
)

const (
	// waveMax is how long smaller pods wait at most after the last larger one was evicted.
	waveMax = 5 * time.Second
	// waveMargin: a node that must be gone within this time is not made to wait.
	waveMargin = 2 * time.Minute
	// bytesPerMilliCPU make memory comparable with CPU: 4 GiB are as much as one CPU.
	bytesPerMilliCPU = 4 << 30 / 1000
)

// wave of evictions for commands: the largest pods that are left, and those at least three quarters as large.
// The rest follows once new pods have come in place of these and kube-scheduler has found nodes for them.
//
// A command that takes nodes away fills others to the brim, and kube-scheduler binds what is created anew as
// it comes. If small pods come first they take the room that a large one needs, and a further node has to be
// bought for it; the other way round there is always a gap for the small ones.
//
// Example. Pods of 1500m, 1200m, 250m and 100m: the first wave is of 1500m and 1200m, the second of 250m, the
// third of 100m.
type wave struct {
	// least is the size of the smallest pods that may go, at when one was last let go.
	least int64
	at    time.Time
}

// eviction of a pod of a size.
type eviction struct {
	ref  ledger.PodRef
	size int64
}

// evictionsOf pods, the largest first.
func evictionsOf(pods []*world.Pod, ref func(*world.Pod) ledger.PodRef) []eviction {
	list := make([]eviction, 0, len(pods))
	for _, p := range pods {
		need := &p.Class.Requests
		list = append(list, eviction{ref(p), need.MilliCPU + need.Memory/bytesPerMilliCPU})
	}
	slices.SortStableFunc(list, func(a, b eviction) int { return cmp.Compare(b.size, a.size) })
	return list
}

// settled reports that all pods that were evicted have come again, and that kube-scheduler has looked at
// them.
func settled(s *planner.Snapshot) bool {
	return len(provision.Missing(s)) == 0 && !slices.ContainsFunc(s.World.PendingPods(), func(p *world.Pod) bool { return provision.IsNew(p, s.Now) })
}

// inWaves drops from the plans what has to wait for larger pods. fresh pods have not been asked to go yet:
// only these open a wave, for one that a PodDisruptionBudget keeps is asked again and again, and would hold
// up all smaller ones. settled is asked only if it matters.
func (w *wave) inWaves(plans []plan, now time.Time, fresh func(eviction) bool, settled func() bool) {
	largest, any, waits := int64(0), false, false
	for i := range plans {
		if p := &plans[i]; p.inWaves(now) {
			for _, e := range p.evicts {
				any = true
				if fresh(e) {
					largest, waits = max(largest, e.size), true
				}
			}
		}
	}
	switch least := (3*largest + 3) / 4; {
	case !any:
		*w = wave{}
		return
	case least > w.least, waits && largest < w.least && (now.Sub(w.at).Abs() >= waveMax || settled()):
		w.least = least
	}
	for i := range plans {
		p := &plans[i]
		if !p.inWaves(now) {
			continue
		}
		p.evicts = slices.DeleteFunc(p.evicts, func(e eviction) bool { return e.size < w.least && fresh(e) })
		if slices.ContainsFunc(p.evicts, fresh) {
			w.at = now
		}
	}
}

// inWaves: the node is taken by a command, there is time, and nothing but the wave keeps its pods.
func (p *plan) inWaves(now time.Time) bool {
	end := p.endOf()
	return p.voluntary && !p.untainted && (end.IsZero() || end.Sub(now) > waveMargin)
}
