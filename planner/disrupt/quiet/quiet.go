// Package quiet says since when nothing has happened on a node.
package quiet

import (
	"time"

	"millwright/planner/condition"

	karpv1 "millwright/api/karpenter/v1"
	"millwright/planner"
	"millwright/planner/world"
)

// After is how long the nodes of a NodePool must have been quiet: 0 if it says nothing, and if it
// says Never.
func After(pool *karpv1.NodePool) time.Duration {
	if d := pool.Spec.Disruption.ConsolidateAfter.Duration; d != nil {
		return *d
	}
	return 0
}

// Since is the last time something happened to a claim's node: it was initialized, or a pod came, ended
// or was deleted. Pod events are those the World saw, or those in the NodeClaim's status. If neither has any,
// the World may only have come too late to see it: then the time counts from when it first saw the Node,
// which costs time and never removes a node too early. false: it is not known yet when the node was
// initialized.
func Since(w *world.World, o *karpv1.NodeClaim, node string) (time.Time, bool) {
	c := condition.Get(o.Status.Conditions, karpv1.ConditionTypeInitialized)
	if c == nil || c.Status != "True" {
		return time.Time{}, false
	}
	event, told := w.LastPodEvent(node), o.Status.LastPodEventTime.Time
	since := planner.Latest(c.LastTransitionTime.Time, told, event)
	if event.IsZero() && told.IsZero() {
		since = planner.Latest(since, w.FirstSeen(node))
	}
	return since.UTC(), true
}
