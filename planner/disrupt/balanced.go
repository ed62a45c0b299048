package disrupt

import (
	"maps"
	"math/bits"
	"slices"

	karpv1 "millwright/api/karpenter/v1"
	"millwright/planner"
)

// Score of a command for a Balanced NodePool (reference: disruption §5): its share of the pool's cost that is saved, over its share of
// the pool's disruption cost. It must be at least a half.
type Score struct {
	NodePool string `json:"nodePool"`
	// Thousandths of the score; Savings of Cost, and Disruption of All, in micro USD per hour and in grains.
	Thousandths int64 `json:"thousandths"`
	Savings     int64 `json:"savings"`
	Cost        int64 `json:"cost"`
	Disruption  int64 `json:"disruption"`
	All         int64 `json:"all"`
}

// balance of a NodePool: what all its nodes cost, in money and in disruption.
type balance struct{ cost, disruption int64 }

// newBalances are the totals of the Balanced NodePools, by name.
func (p *pass) newBalances() map[string]balance {
	totals := map[string]balance{}
	for _, pool := range p.s.World.NodePools() {
		if pool.Spec.Disruption.ConsolidationPolicy == karpv1.ConsolidationPolicyBalanced {
			totals[pool.Name] = balance{}
		}
	}
	for _, n := range p.s.StateNodes() {
		if b, ok := totals[n.NodePool]; ok && n.Claim != nil {
			totals[n.NodePool] = balance{b.cost + p.price(n), b.disruption + disruptionCost(n, true)}
		}
	}
	return totals
}

// disruptionCost is one grain-unit plus the eviction costs of a node's pods that move; of all that are not a DaemonSet's for the totals.
func disruptionCost(n *planner.StateNode, all bool) int64 {
	cost := planner.EvictionCostUnit / costGrain
	for _, pod := range n.Pods {
		if all && !pod.Class.DaemonSetOwned() || planner.IsReschedulable(pod) {
			cost += max(0, planner.EvictionCost(pod)) / costGrain
		}
	}
	return cost
}

// balance scores an outcome for each Balanced NodePool of its nodes and returns the nodes of those that reject it.
func (p *pass) balance(o *outcome) (rejected []*planner.StateNode, scores []Score) {
	savings := p.priceOf(o.nodes)
	total := savings
	for i := range o.claims {
		savings -= o.claims[i].Cheapest.MicroUSDPerHour
	}
	for _, pool := range slices.Sorted(maps.Keys(p.balances)) {
		own := slices.DeleteFunc(slices.Clone(o.nodes), func(n *planner.StateNode) bool { return n.NodePool != pool })
		if len(own) == 0 {
			continue
		}
		s := Score{NodePool: pool, Cost: p.balances[pool].cost, All: p.balances[pool].disruption, Savings: proportion(savings, p.priceOf(own), total)}
		for _, n := range own {
			s.Disruption += disruptionCost(n, false)
		}
		s.Thousandths = s.value()
		scores = append(scores, s)
		if s.Thousandths < 500 {
			rejected = append(rejected, own...)
		}
	}
	return rejected, scores
}

// proportion is sum × part / whole.
func proportion(sum, part, whole int64) int64 {
	if whole <= 0 || sum <= 0 {
		return 0
	}
	hi, lo := bits.Mul64(uint64(sum), uint64(part))
	q, _ := bits.Div64(hi, lo, uint64(whole))
	return int64(q)
}

// scoreMost stands for a score without a bound.
const scoreMost = 1_000_000

// value is savings/cost over disruption/all, in thousandths.
func (s *Score) value() int64 {
	if s.Savings <= 0 || s.Cost <= 0 || s.All <= 0 {
		return 0
	}
	saved, disrupted := proportion(1_000_000_000, s.Savings, s.Cost), proportion(1_000_000_000, s.Disruption, s.All)
	if disrupted <= 0 {
		return scoreMost
	}
	return min(scoreMost, proportion(1000, saved, disrupted))
}
