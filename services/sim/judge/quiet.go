package judge

import (
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	karpv1 "millwright/api/karpenter/v1"
	"millwright/events"
	"millwright/planner/ledger"
	"millwright/services/sim/stage"
)

// Checks of consolidateAfter, and of ignorePodEvents of the DisruptionPolicies (reference: disruption §1).
const (
	CheckQuiet   = "4: no node is consolidated inside its consolidateAfter"
	CheckIgnored = "4: DisruptionPolicies: nodes are quiet while only pods come and go that are ignored"
)

// Quiet judges which nodes count as quiet, by the pods that were seen to come, to end and to go.
type Quiet struct {
	*Judge
	// ableSince is since when nothing has kept the lifecycle from telling; zero while something does.
	ableSince time.Time
}

// judge demands that on no node that consolidation takes something happened a moment ago. Clocks may be
// apart.
func (q *Quiet) judge(v *seen, c *ledger.CommandStarted) {
	if c.Reason != karpv1.DisruptionReasonEmpty && c.Reason != karpv1.DisruptionReasonUnderutilized {
		return
	}
	for i := range c.Candidates {
		x := &c.Candidates[i]
		n, _ := v.objects[events.KindNode][x.Node].(*corev1.Node)
		pool, _ := v.objects[events.KindNodePool][x.NodePool].(*karpv1.NodePool)
		if n == nil || pool == nil || pool.Spec.Disruption.ConsolidateAfter.Duration == nil {
			continue
		}
		after := *pool.Spec.Disruption.ConsolidateAfter.Duration
		if at, now := v.knownOn(n), q.Clock.Now(); at.Before(now.Add(stage.ClocksApart)) && now.Add(stage.ClocksApart).Before(at.Add(after)) {
			q.Violate(CheckQuiet, "node %s is taken for %s, where the last thing happened %s ago; its consolidateAfter is %s", n.Name, c.Reason, now.Sub(at), after)
		}
	}
}

// lastOn is when a node was seen to be initialized, or a pod to come there, to end or to go; zero if nothing
// was seen.
func (v *seen) lastOn(n *corev1.Node) time.Time {
	at := v.initializedAt(n)
	if event := v.podEvents[n.Name]; event.After(at) {
		return event
	}
	return at
}

// toldStep is how much later than the pod event in a NodeClaim's status another one may be and not be written
// there (reference: disruption §1).
const toldStep = 10 * time.Second

// knownOn is lastOn, or shortly before it the pod event in the NodeClaim's status: a process that has started
// since knows no other.
func (v *seen) knownOn(n *corev1.Node) time.Time {
	at, c := v.lastOn(n), v.claimOf(n.Spec.ProviderID)
	if c == nil {
		return at
	}
	if told := c.Status.LastPodEventTime.Time; told.Before(at) && at.Sub(told) < toldStep && v.initializedAt(n).Before(told) {
		return told
	}
	return at
}

// ignores reports that a policy that was seen ignores a pod on the node that it is on.
func (v *seen) ignores(p *corev1.Pod) bool {
	n, _ := v.objects[events.KindNode][p.Spec.NodeName].(*corev1.Node)
	if n == nil || len(v.objects[events.KindDisruptionPolicy]) == 0 {
		return false
	}
	for _, policy := range v.policiesOf(n.Labels[karpv1.NodePoolLabelKey]) {
		if s := policy.Spec.IgnorePodEvents; s != nil && selectsPod(s, p.Labels) {
			return true
		}
	}
	return false
}

// selectsPod by equal labels and by expressions with In, which are all that are drawn; an empty selector
// selects all.
func selectsPod(s *metav1.LabelSelector, labels map[string]string) bool {
	for key, value := range s.MatchLabels {
		if labels[key] != value {
			return false
		}
	}
	return !slices.ContainsFunc(s.MatchExpressions, func(x metav1.LabelSelectorRequirement) bool { return !slices.Contains(x.Values, labels[x.Key]) })
}

// tellingTime is how long a lifecycle that nothing keeps from it takes to show that a node is quiet, with
// faults and without.
const (
	tellingTime = 75 * time.Second
	calmTelling = 15 * time.Second
)

// Time within which every node that is left alone must be consolidatable, if nothing fails.
func (q *Quiet) Time() (longest time.Duration) {
	for _, p := range q.Script.Pools {
		if after := p.Spec.Disruption.ConsolidateAfter.Duration; after != nil {
			longest = max(longest, *after)
		}
	}
	return longest + 2*calmTelling
}

// Look demands, once a second, that what has been quiet as far as the lifecycle has seen is consolidatable.
// Nil: it cannot act at present, or began a moment ago.
func (q *Quiet) Look(lifecycle Process) {
	now := q.Clock.Now()
	switch {
	case lifecycle == nil:
		q.ableSince = time.Time{}
		return
	case q.ableSince.IsZero():
		q.ableSince = now
	}
	bound := tellingTime
	if !q.Calmed.IsZero() && now.Sub(q.Calmed) > tellingTime {
		bound = calmTelling
	}
	if now.Sub(q.ableSince) < bound {
		return
	}
	v := q.seenBy(lifecycle)
	for _, n := range all[*corev1.Node](v, events.KindNode) {
		c := v.claimOf(n.Spec.ProviderID)
		if c == nil || v.going(c) || n.DeletionTimestamp != nil || !isTrue(c.Status.Conditions, karpv1.ConditionTypeInitialized) || isTrue(c.Status.Conditions, karpv1.ConditionTypeConsolidatable) {
			continue
		}
		since := v.lastOn(n)
		if since.Before(q.ableSince) {
			since = q.ableSince
		}
		q.demand(n, since, bound)
	}
}

// demand that a node on which nothing has happened since a time is shown as consolidatable by now.
func (q *Quiet) demand(n *corev1.Node, since time.Time, bound time.Duration) {
	var after time.Duration
	pools := q.lately(n.Labels[karpv1.NodePoolLabelKey])
	for _, p := range pools {
		if p.DeletionTimestamp != nil || p.Spec.Disruption.ConsolidateAfter.Duration == nil {
			return
		}
		after = max(after, *p.Spec.Disruption.ConsolidateAfter.Duration)
	}
	if quiet := q.Clock.Now().Sub(since); len(pools) > 0 && quiet > after+bound {
		q.Violate(CheckIgnored, "node %s, where nothing has happened for %s but visits, is not shown as consolidatable; its consolidateAfter is %s", n.Name, quiet, after)
	}
}
