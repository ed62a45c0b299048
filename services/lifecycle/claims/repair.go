package claims

import (
	"fmt"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"

	karpv1 "millwright/api/karpenter/v1"
	"millwright/planner"
	"millwright/planner/claim"
	"millwright/services/internal/service"
)

// Where too many nodes are unhealthy for any to be repaired (reference: lifecycle §10).
const (
	blockedInPool    = "more than 20% nodes are unhealthy in the nodepool"
	blockedInCluster = "more than 20% nodes are unhealthy in the cluster"
	// blockedQuiet is how long an equal KubeEvent is dropped.
	blockedQuiet = 15 * time.Minute
	// countEvery is how long a count of unhealthy nodes is believed.
	countEvery = time.Second
)

// counts of nodes and of unhealthy ones, by NodePool; "" is the whole cluster.
type counts struct {
	mu               sync.Mutex
	at               time.Time
	nodes, unhealthy map[string]int
}

// policiesOf are the repair policies in force; none while nothing is repaired.
func policiesOf(o planner.Options) []planner.RepairPolicy {
	switch {
	case !o.NodeRepair:
		return nil
	case len(o.RepairPolicies) > 0:
		return o.RepairPolicies
	}
	return planner.DefaultRepairPolicies()
}

// unhealthy is why the claim's Node is to be replaced; nil if it is not.
func (s *Stepper) unhealthy(v *claimView, now time.Time) *claim.Unhealthy {
	policies := policiesOf(v.options)
	u := claim.UnhealthyOf(v.nodes, policies)
	if u == nil {
		return nil
	}
	pool := v.pool()
	unhealthy, nodes := s.counts.unhealthyIn(pool, policies, s.deps.Cache.Nodes, now)
	switch {
	case claim.RepairsAllowed(unhealthy, nodes):
	case pool == "":
		u.Blocked = blockedInCluster
	default:
		u.Blocked = blockedInPool
	}
	return u
}

// unhealthyIn returns how many nodes of a NodePool, or for "" of the cluster, are unhealthy, of how many.
func (c *counts) unhealthyIn(pool string, policies []planner.RepairPolicy, all func() []*corev1.Node, now time.Time) (unhealthy, nodes int) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.nodes == nil || now.Sub(c.at) >= countEvery || now.Before(c.at) {
		c.at, c.nodes, c.unhealthy = now, map[string]int{}, map[string]int{}
		for _, n := range all() {
			c.countNode("", n, policies)
			if name := n.Labels[karpv1.NodePoolLabelKey]; name != "" {
				c.countNode(name, n, policies)
			}
		}
	}
	return c.unhealthy[pool], c.nodes[pool]
}

func (c *counts) countNode(pool string, n *corev1.Node, policies []planner.RepairPolicy) {
	c.nodes[pool]++
	if claim.IsUnhealthy(n, policies) {
		c.unhealthy[pool]++
	}
}

// tellBlocked publishes that a Node would be repaired if not so many were unhealthy.
func (r *report) tellBlocked(v *claimView) {
	u := v.input.Unhealthy
	if u == nil || u.Blocked == "" || v.input.Now.Before(u.Until) {
		return
	}
	r.host.Event(service.KubeEvent{Object: referenceToNode(v.nodes[0]), Type: corev1.EventTypeWarning, Reason: "NodeRepairBlocked",
		Message: u.Blocked, DedupeKey: fmt.Sprintf("repair-blocked/%s", v.nodes[0].UID), DedupeFor: blockedQuiet})
}
