package disrupt

import (
	"cmp"

	"millwright/planner"
	"millwright/planner/disrupt/internal/pricing"
)

func compareNodes(a, b *planner.StateNode) int { return cmp.Compare(a.Name, b.Name) }

// Price is what a node costs per hour, in micro USD; 0 if it is not known.
func Price(s *planner.Snapshot, n *planner.StateNode) int64 { return pricing.New(s).Of(n) }
