package judge

import (
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	karpv1 "millwright/api/karpenter/v1"
	mwv1alpha1 "millwright/api/millwright/v1alpha1"
	"millwright/events"
	"millwright/planner/ledger"
	"millwright/services/sim/stage"
)

// CheckDestination is of commands by destination: Ban of the DisruptionPolicies.
const CheckDestination = "4: DisruptionPolicies: no pod is moved to a node inside its consolidateAfter"

// destinations judges where commands move pods to.
type destinations struct{ *Judge }

// judge looks at the nodes to which consolidation moves pods.
func (s *destinations) judge(v *seen, c *ledger.CommandStarted) {
	if c.Reason != karpv1.DisruptionReasonUnderutilized {
		return
	}
	for _, to := range c.Placements {
		n, _ := v.objects[events.KindNode][to.Node].(*corev1.Node)
		if n == nil {
			continue // a claim that is no node yet
		}
		name := n.Labels[karpv1.NodePoolLabelKey]
		i := slices.IndexFunc(v.policiesOf(name), func(p *mwv1alpha1.DisruptionPolicy) bool { return p.Spec.Destination == mwv1alpha1.DestinationBan })
		pool, _ := v.objects[events.KindNodePool][name].(*karpv1.NodePool)
		if i < 0 || pool == nil || pool.Spec.Disruption.ConsolidateAfter.Duration == nil {
			continue
		}
		s.judgeNode(v, n, *pool.Spec.Disruption.ConsolidateAfter.Duration)
	}
}

// judgeNode demands that nothing happened on a node a moment ago: it was not initialized, and no pod came,
// ended or went. Clocks may be apart.
func (s *destinations) judgeNode(v *seen, n *corev1.Node, after time.Duration) {
	now := s.Clock.Now()
	for _, at := range []time.Time{v.podEvents[n.Name], v.initializedAt(n)} { // zero if nothing was seen
		if at.Before(now.Add(stage.ClocksApart)) && now.Add(stage.ClocksApart).Before(at.Add(after)) {
			s.Violate(CheckDestination, "pods go to node %s, where the last thing happened %s ago; its consolidateAfter is %s", n.Name, now.Sub(at), after)
		}
	}
}

// initializedAt is when a node's NodeClaim says that it was initialized; zero if it does not.
func (v *seen) initializedAt(n *corev1.Node) time.Time {
	if c := v.claimOf(n.Spec.ProviderID); c != nil {
		for _, x := range c.Status.Conditions {
			if x.Type == karpv1.ConditionTypeInitialized && x.Status == metav1.ConditionTrue {
				return x.LastTransitionTime.Time
			}
		}
	}
	return time.Time{}
}
