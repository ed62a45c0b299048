package disrupt

import (
	"slices"

	"k8s.io/apimachinery/pkg/types"

	"millwright/planner"
	"millwright/planner/disrupt/internal/order"
	"millwright/planner/disrupt/internal/policy"
	"millwright/planner/disrupt/quiet"
	"millwright/planner/options"
)

// isDrifted: no pod is moved to a node that goes next, if there is another.
func isDrifted(n *planner.StateNode) bool { return order.Drifted(n) != nil }

// banned reports that a DisruptionPolicy keeps consolidation from moving pods to a node, for it is to run
// empty, or is inside its consolidateAfter (reference: disruption §4.1).
func (c *candidates) banned(n *planner.StateNode) bool {
	if n.DrainsOut {
		return true
	}
	ban := slices.ContainsFunc(c.policies[n.NodePool], (*policy.Policy).BansDestinations)
	pool := c.s.World.NodePool(n.NodePool)
	if !ban || pool == nil || n.Claim == nil || !n.Initialized || quiet.After(pool) == 0 {
		return false
	}
	return c.quiet(pool, n, &NodeReport{}) != nil
}

// anyBans reports that DisruptionPolicies ban destinations.
func (c *candidates) anyBans() bool {
	for _, list := range c.policies {
		if slices.ContainsFunc(list, (*policy.Policy).BansDestinations) {
			return c.s.Options.Revision >= options.Revision8
		}
	}
	return false
}

// consolidationTrial is a trial in which pods go to no node that policies ban.
func (p *pass) consolidationTrial(nodes []*planner.StateNode, places map[types.UID]string, pack bool) *outcome {
	x := p.trials
	if places == nil && !pack && p.anyBans() {
		if p.banning == nil {
			p.banning = &trials{s: p.s, memory: p.trials.memory, closed: p.banned}
		}
		x = p.banning
	}
	o := x.without(nodes, places, pack)
	if len(p.policies) == 0 {
		return o
	}
	for _, n := range nodes {
		for _, pod := range n.Pods {
			if to := p.s.StateNode(o.places[pod.UID]); to != nil && p.banned(to) {
				delete(o.places, pod.UID)
				o.waiting = append(o.waiting, refusedPod{o.pods[pod.UID], "would go to node/" + to.Name + ", which is inside its consolidateAfter or drains out"})
			}
		}
	}
	return o
}
