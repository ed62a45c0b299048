package disrupt

import (
	"millwright/planner"
	"millwright/planner/disrupt/internal/pricing"
)

// Price is what a node costs per hour, in micro USD; 0 if it is not known.
func Price(s *planner.Snapshot, n *planner.StateNode) int64 { return pricing.New(s).Of(n) }
