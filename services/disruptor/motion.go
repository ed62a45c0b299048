package disruptor

import (
	"time"

	"millwright/planner/world"
)

const (
	// A cluster is in motion while more than one pod in motionPart, and at least motionLeast, come or go in a
	// second, and until calmFor after; but never for longer than motionMax.
	motionPart  = 100
	motionLeast = 5
	calmFor     = 3 * time.Second
	motionMax   = 30 * time.Second
)

// motion watches how many pods nodes have. What is planned while a Deployment is being scaled is out of date
// before it is done: pods would be moved to nodes that are about to run empty, and moved again, or nodes
// would go that new pods are about to come to. So consolidation waits a moment; nothing else does.
//
// Example. 1,000 pods are scaled down to 300, which takes kube-controller-manager 12 s. Consolidation begins
// 15 s after the first pod went, with all that can go then.
type motion struct {
	// at is when pods were counted; since and last are when the first and the last of them came or went.
	at, since, last time.Time
	pods            int
}

// ago is how long ago something was. What is to come was before the clock was set back, and so is as long ago
// as it seems to be ahead: else it would count until the clock comes there again.
func ago(now, at time.Time) time.Duration { return now.Sub(at).Abs() }

// bound counts the pods that have a node.
func bound(w *world.World) int { return w.PodCount() - len(w.PendingPods()) }

// look reports that the cluster is in motion, in which so many pods have a node.
func (m *motion) look(now time.Time, pods int) bool {
	switch {
	case m.at.IsZero():
		m.at, m.pods = now, pods
	case ago(now, m.at) >= planEvery:
		if moved := max(pods-m.pods, m.pods-pods); moved >= motionLeast && moved*motionPart > m.pods {
			if m.last = now; m.since.IsZero() {
				m.since = now
			}
		}
		m.at, m.pods = now, pods
	}
	if ago(now, m.last) >= calmFor {
		m.since = time.Time{}
	}
	return !m.since.IsZero() && ago(now, m.since) < motionMax
}
