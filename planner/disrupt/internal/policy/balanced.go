package policy

import (
	"maps"
	"math/bits"
	"slices"

	karpv1 "millwright/api/karpenter/v1"
	"millwright/planner"
	"millwright/planner/options"
	"millwright/planner/world"
)

// Score of a command for a Balanced NodePool (reference: disruption §5): its share of the pool's cost that is
// saved, over its share of the pool's disruption cost. It must be at least a half.
type Score struct {
	NodePool string `json:"nodePool"`
	// Thousandths of the score; Savings of Cost, and Disruption of All, in micro USD per hour and in grains.
	Thousandths int64 `json:"thousandths"`
	Savings     int64 `json:"savings"`
	Cost        int64 `json:"cost"`
	Disruption  int64 `json:"disruption"`
	All         int64 `json:"all"`
}

// Total of a Balanced NodePool: what all its nodes cost, in money and in disruption.
type Total struct{ cost, disruption int64 }

// Totals of the Balanced NodePools, by name.
func Totals(s *planner.Snapshot, price func(*planner.StateNode) int64) map[string]Total {
	totals := map[string]Total{}
	for _, pool := range s.World.NodePools() {
		if pool.Spec.Disruption.ConsolidationPolicy == karpv1.ConsolidationPolicyBalanced {
			totals[pool.Name] = Total{}
		}
	}
	// The pods that a command which takes the node would move.
	costs := planner.IsReschedulable
	if s.Options.Revision < options.Revision3 {
		// Pods of all kinds but DaemonSets', be they leaving; those that have ended disturb nobody.
		costs = func(pod *world.Pod) bool {
			return !pod.Class.DaemonSetOwned() && (s.Options.Revision < options.Revision1 || !pod.Terminal())
		}
	}
	for _, n := range s.StateNodes() {
		if b, ok := totals[n.NodePool]; ok && n.Claim != nil {
			totals[n.NodePool] = Total{b.cost + price(n), b.disruption + disruptionCost(n, costs)}
		}
	}
	return totals
}

// disruptionCost is one unit in grains plus the eviction costs of those of a node's pods that count.
func disruptionCost(n *planner.StateNode, counts func(*world.Pod) bool) int64 {
	cost := planner.EvictionCostUnit / CostGrain
	for _, pod := range n.Pods {
		if counts(pod) {
			cost += EvictionGrains(pod)
		}
	}
	return cost
}

// Scores of taking nodes away, for each Balanced NodePool of theirs; savings in micro USD per hour.
func Scores(totals map[string]Total, nodes []*planner.StateNode, savings int64, price func(*planner.StateNode) int64) (scores []Score) {
	priceOf := func(nodes []*planner.StateNode) (sum int64) {
		for _, n := range nodes {
			sum += price(n)
		}
		return sum
	}
	total := priceOf(nodes)
	for _, pool := range slices.Sorted(maps.Keys(totals)) {
		own := slices.DeleteFunc(slices.Clone(nodes), func(n *planner.StateNode) bool { return n.NodePool != pool })
		if len(own) == 0 {
			continue
		}
		s := Score{NodePool: pool, Cost: totals[pool].cost, All: totals[pool].disruption, Savings: Proportion(savings, priceOf(own), total)}
		for _, n := range own {
			s.Disruption += disruptionCost(n, planner.IsReschedulable)
		}
		s.Thousandths = s.value()
		scores = append(scores, s)
	}
	return scores
}

// Proportion is sum × part / whole.
func Proportion(sum, part, whole int64) int64 {
	if whole <= 0 || sum <= 0 {
		return 0
	}
	hi, lo := bits.Mul64(uint64(sum), uint64(part))
	q, _ := bits.Div64(hi, lo, uint64(whole))
	return int64(q)
}

// scoreMost stands for a score without a bound.
const scoreMost = 1_000_000

// ScoreLeast is the score, in thousandths, that a command must have.
const ScoreLeast = 500

// value is savings/cost over disruption/all, in thousandths.
func (s *Score) value() int64 {
	if s.Savings <= 0 || s.Cost <= 0 || s.All <= 0 {
		return 0
	}
	saved, disrupted := Proportion(1_000_000_000, s.Savings, s.Cost), Proportion(1_000_000_000, s.Disruption, s.All)
	if disrupted <= 0 {
		return scoreMost
	}
	return min(scoreMost, Proportion(1000, saved, disrupted))
}
