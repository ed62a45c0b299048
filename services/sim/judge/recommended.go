package judge

import (
	"fmt"
	"maps"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"

	karpv1 "millwright/api/karpenter/v1"
	mwv1alpha1 "millwright/api/millwright/v1alpha1"
	"millwright/services/sim/cluster"
	"millwright/services/sim/stage"
)

// Checks of rebalance recommendations (reference: disruption §8). That commands by them stay within budgets
// and replace first is judged as of all commands.
const (
	CheckHeeded       = "only spot nodes that EC2 recommends to leave, and where that is to be followed, drift by it"
	CheckRecommended  = "spot nodes that EC2 recommends to leave drift, where that is to be followed and the services had time"
	reasonRecommended = "RebalanceRecommended"
)

// Recommended judges what follows from recommendations.
type Recommended struct {
	*Judge
	// due is since when a NodeClaim should be shown as drifted, by the id of its instance.
	due map[string]time.Time
}

func newRecommended(j *Judge) *Recommended {
	return &Recommended{Judge: j, due: map[string]time.Time{}}
}

// follows reports that recommendations are to be followed in a NodePool: a policy that selects it says so and
// none says otherwise, or none says anything and the option does.
func (r *Recommended) follows(name string) bool {
	pool, replace, said := r.Cluster.NodePool(name), r.Options.Rebalance == "Replace", ""
	if pool == nil {
		return false
	}
	for _, c := range r.Cluster.Present() {
		p, ok := c.Object.(*mwv1alpha1.DisruptionPolicy)
		if !ok || p.Spec.RebalanceRecommendation == "" || p.Spec.NodePoolSelector != nil && !selectsPod(p.Spec.NodePoolSelector, pool.Labels) {
			continue
		}
		if said != "Ignore" {
			said = string(p.Spec.RebalanceRecommendation)
		}
	}
	return said == "Replace" || said == "" && replace
}

// checkHeeded looks at a NodeClaim that is shown as drifted by a recommendation. A NodePool that users delete
// and make again is as before.
func (r *Recommended) checkHeeded(c *karpv1.NodeClaim) {
	pool, id := c.Labels[karpv1.NodePoolLabelKey], InstanceOf(c.Status.ProviderID)
	i := r.Cloud.Instance(id)
	switch {
	case i == nil:
	case i.CapacityType != karpv1.CapacityTypeSpot:
		r.Violate(CheckHeeded, "NodeClaim %s has drifted by a recommendation, and %s is %s", c.Name, id, i.CapacityType)
	case r.Deeds.Recommended[id].IsZero():
		r.Violate(CheckHeeded, "NodeClaim %s has drifted, and nobody recommends to leave %s", c.Name, id)
	case r.Cluster.NodePool(pool) != nil && !r.follows(pool):
		r.Violate(CheckHeeded, "NodeClaim %s has drifted, and what EC2 recommends is to be ignored in NodePool %s", c.Name, pool)
	}
}

// Look demands, once a second, that NodeClaims of which the lifecycle has seen a recommendation are shown as
// drifted. Nil: it cannot act at present, or began a moment ago.
func (r *Recommended) Look(lifecycle Process) {
	if lifecycle == nil {
		clear(r.due)
		return
	}
	v, now := r.seenBy(lifecycle), r.Clock.Now()
	for _, id := range slices.Sorted(maps.Keys(r.Deeds.Recommended)) {
		c := r.stays(id)
		if c == nil || c.Labels[karpv1.CapacityTypeLabelKey] != karpv1.CapacityTypeSpot || !v.recommended[id] || !r.follows(c.Labels[karpv1.NodePoolLabelKey]) || isTrue(c.Status.Conditions, karpv1.ConditionTypeDrifted) {
			delete(r.due, id)
			continue
		}
		if r.due[id].IsZero() {
			r.due[id] = now
		}
		if late := now.Sub(r.due[id]); late > actingTime {
			r.Violate(CheckRecommended, "NodeClaim %s is not shown as drifted, %s after it was seen that EC2 recommends to leave %s", c.Name, late, id)
		}
	}
}

// stays returns the NodeClaim of an instance if neither is going; else nil.
func (r *Recommended) stays(id string) *karpv1.NodeClaim {
	i, c := r.Cloud.Instance(id), r.Cluster.NodeClaim(r.history.owner[id])
	if i == nil || i.Ending() || c == nil || c.DeletionTimestamp != nil || InstanceOf(c.Status.ProviderID) != id || r.isDoomed(c.Name) {
		return nil
	}
	if p := r.Cluster.NodePool(c.Labels[karpv1.NodePoolLabelKey]); p == nil || p.DeletionTimestamp != nil {
		return nil
	}
	return c
}

// Left lists the nodes that have drifted by a recommendation and stay, though nothing of the cluster keeps
// them: a limit, a node that waits for a protected pod and uses up the budget, or a pod of its own that must
// not be evicted.
func (r *Recommended) Left() (missing []string) {
	held := r.heldNodes()
	for _, id := range slices.Sorted(maps.Keys(r.Deeds.Recommended)) {
		c := r.stays(id)
		if c == nil || r.Clock.Now().Sub(r.Deeds.Recommended[id]) < stage.ClocksApart || reasonOf(c.Status.Conditions, karpv1.ConditionTypeDrifted) != reasonRecommended {
			continue
		}
		if pool := c.Labels[karpv1.NodePoolLabelKey]; !r.isKept(c) && !r.budgetUsed(held, pool) {
			missing = append(missing, fmt.Sprintf("NodeClaim %s stays, and EC2 recommends to leave %s", c.Name, id))
		}
	}
	return missing
}

// isKept reports that its pods, a limit or a budget may keep a node for ever.
func (r *Recommended) isKept(c *karpv1.NodeClaim) bool {
	limited := slices.ContainsFunc(r.Script.Pools, func(p *karpv1.NodePool) bool { return len(p.Spec.Limits) > 0 })
	waved := slices.ContainsFunc(r.Cluster.Present(), func(x cluster.Change) bool {
		p, ok := x.Object.(*mwv1alpha1.DisruptionPolicy)
		return ok && p.Spec.Waves != nil
	})
	return limited || waved || slices.ContainsFunc(r.Cluster.PodsOn(c.Status.NodeName), func(p *corev1.Pod) bool {
		return p.Annotations[karpv1.DoNotDisruptAnnotationKey] == "true" || !isDaemonPod(p) && !r.Cluster.MayEvict(p)
	})
}
