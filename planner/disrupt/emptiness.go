package disrupt

import (
	"fmt"
	"time"

	karpv1 "millwright/api/karpenter/v1"
	"millwright/planner"
	"millwright/planner/world"
)

// emptiness is the method that removes nodes without pods that would need another place.
type emptiness struct{ *candidates }

// examine decides whether a node may be removed as empty and when its quiet time ends.
func (e emptiness) examine(n *planner.StateNode) NodeReport {
	r := NodeReport{NodePool: n.NodePool, Claim: n.ClaimName()}
	if n.Node != nil {
		r.Node = n.Name
	}
	if r.Blocked = e.node(n, ""); r.Blocked != nil {
		return r
	}
	r.Blocked = e.method(n, &r)
	return r
}

// method checks what emptiness asks beyond eligibility (reference: disruption §1, §2).
func (e emptiness) method(n *planner.StateNode, r *NodeReport) *Blocked {
	pool := e.s.World.NodePool(n.NodePool)
	if b := emptyAndEnabled(pool, n); b != nil {
		return b
	}
	since, ok := QuietSince(e.s.World, n.Claim, n.Name)
	if !ok {
		return &Blocked{Cause: CauseNotQuiet}
	}
	r.QuietSince, r.ConsolidatableAt = since, since.Add(ConsolidateAfter(pool))
	if e.s.Now.Before(r.ConsolidatableAt) {
		return &Blocked{Cause: CauseNotQuiet}
	}
	return nil
}

// invalid returns why a running command can no longer go on with a node; "" if it can.
func (e emptiness) invalid(n *planner.StateNode, own string) string {
	if b := e.node(n, own); b != nil {
		return fmt.Sprintf("node %s: %s", n.Name, lowerFirst(b.Message))
	}
	if pods := reschedulable(n); len(pods) > 0 {
		return fmt.Sprintf("node %s: pods arrived: %s", n.Name, podNames(pods))
	}
	if e.s.World.NodePool(n.NodePool).Spec.Disruption.ConsolidateAfter.IsNever() {
		return fmt.Sprintf("node %s: NodePool %q has consolidation disabled", n.Name, n.NodePool)
	}
	return ""
}

func emptyAndEnabled(pool *karpv1.NodePool, n *planner.StateNode) *Blocked {
	switch {
	case pool.Spec.Replicas != nil:
		return &Blocked{Cause: CauseStatic}
	case pool.Spec.Disruption.ConsolidateAfter.IsNever():
		return &Blocked{
			Cause: CauseDisabled, Message: fmt.Sprintf("NodePool %q has consolidation disabled", pool.Name),
			EventReason: EventUnconsolidatable,
		}
	case len(reschedulable(n)) > 0:
		return &Blocked{Cause: CauseNotEmpty}
	}
	return nil
}

// ConsolidateAfter is how long the nodes of a NodePool must have been quiet: 0 where it says nothing, and where it says Never.
func ConsolidateAfter(pool *karpv1.NodePool) time.Duration {
	if d := pool.Spec.Disruption.ConsolidateAfter.Duration; d != nil {
		return *d
	}
	return 0
}

// QuietSince is the last moment something happened to a claim's node: it was initialized, or a pod came, ended or
// was deleted. Pod events are those the World saw, or the NodeClaim's status tells of. If neither knows any,
// the World may only have come too late to see it: then the time counts from when it first saw the Node, which
// costs time and never removes a node too early. false: it is not known yet when the node was initialized.
func QuietSince(w *world.World, o *karpv1.NodeClaim, node string) (time.Time, bool) {
	c := planner.Condition(o.Status.Conditions, karpv1.ConditionTypeInitialized)
	if c == nil || c.Status != "True" {
		return time.Time{}, false
	}
	event, told := w.LastPodEvent(node), o.Status.LastPodEventTime.Time
	since := latest(c.LastTransitionTime.Time, told, event)
	if event.IsZero() && told.IsZero() {
		since = latest(since, w.FirstSeen(node))
	}
	return since.UTC(), true
}

func latest(times ...time.Time) time.Time {
	var l time.Time
	for _, t := range times {
		if t.After(l) {
			l = t
		}
	}
	return l
}
