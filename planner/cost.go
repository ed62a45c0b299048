package planner

import (
	"strconv"

	"millwright/planner/world"
)

// EvictionCostUnit is what it costs to move a pod that says nothing about itself; eviction costs are counted
// in 1/2^27 of it.
const EvictionCostUnit = int64(1) << 27

// EvictionCost is what moving a pod costs: one unit, plus its deletion cost, plus four times its priority,
// within ±10 units (reference: disruption §3).
func EvictionCost(p *world.Pod) int64 {
	cost := EvictionCostUnit
	if n, err := strconv.ParseInt(p.Class.Annotations[world.DeletionCostAnnotation], 10, 32); err == nil {
		cost += n
	}
	if pr := p.Class.Spec.Priority; pr != nil {
		cost += 4 * int64(*pr)
	}
	return max(-10*EvictionCostUnit, min(10*EvictionCostUnit, cost))
}
