package disrupt

import (
	policyv1 "k8s.io/api/policy/v1"

	"millwright/planner"
)

// pdbSum demands that the PodDisruptionBudgets allow all evictions of the nodes together with those of nodes that are going already.
// A node may hold more pods of a budget than may go at once, for its drain takes them one after the other; but two nodes may not wait
// for the same disruption. eventual nodes wait for budgets until their grace period ends.
func (c *candidates) pdbSum(nodes []*planner.StateNode, eventual bool) *Blocked {
	if eventual || len(c.s.World.PodDisruptionBudgets()) == 0 {
		return nil
	}
	counts := c.goingCounts()
	for _, n := range nodes {
		if why := c.pdbTake(counts, n); why != nil {
			return why
		}
	}
	return nil
}

// goingCounts are the pods that are to be evicted from nodes that are going, by budget.
func (c *candidates) goingCounts() map[*policyv1.PodDisruptionBudget]int32 {
	counts := map[*policyv1.PodDisruptionBudget]int32{}
	for _, n := range c.s.StateNodes() {
		if n.MarkedForDeletion {
			c.pdbAdd(counts, n)
		}
	}
	return counts
}

func (c *candidates) pdbAdd(counts map[*policyv1.PodDisruptionBudget]int32, n *planner.StateNode) {
	pdbs := c.s.PodBudgets()
	for _, p := range n.Pods {
		if planner.IsEvictable(p, c.s.Now) {
			for _, b := range pdbs.Matching(p) {
				counts[b]++
			}
		}
	}
}

// pdbTake adds a node's pods to the counts, or says which budget does not allow it; then the counts are as before.
func (c *candidates) pdbTake(counts map[*policyv1.PodDisruptionBudget]int32, n *planner.StateNode) *Blocked {
	own := map[*policyv1.PodDisruptionBudget]int32{}
	c.pdbAdd(own, n)
	for _, b := range c.s.World.PodDisruptionBudgets() {
		if k := own[b]; k > 0 && counts[b] > 0 && counts[b]+k > b.Status.DisruptionsAllowed {
			return blocked(CausePDBSum, "Pdb prevents pod evictions (PodDisruptionBudget=[%s/%s])", b.Namespace, b.Name).by("PodDisruptionBudget " + b.Namespace + "/" + b.Name)
		}
	}
	for b, k := range own {
		counts[b] += k
	}
	return nil
}
