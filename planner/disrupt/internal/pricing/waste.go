package pricing

import (
	"millwright/planner/disrupt/internal/packing"
	"millwright/planner/disrupt/internal/policy"
)

// Waste is the price of what a node has and does not need, by the resource that it needs most of.
func Waste(x *packing.Site) int64 {
	used, have := x.Requests(), x.Node.Allocatable
	return x.Price - max(policy.Proportion(x.Price, used.MilliCPU, have.MilliCPU), policy.Proportion(x.Price, used.Memory, have.Memory))
}
