package offer

import (
	"millwright/planner"
	"millwright/planner/ledger"
	"millwright/planner/provision/internal/overlay"
	"millwright/planner/resource"
)

// Input is what NodePools may offer. The order of its lists does not matter.
type Input struct {
	Options planner.Options
	Pools   []PoolInput
	Daemons []DaemonSet
	// Unavailable offerings are not offered to any pool.
	Unavailable []ledger.OfferingKey
	// Unproven offerings had no capacity when they were asked last, and are not marked any more.
	Unproven []ledger.OfferingKey
	// LaunchedLately is what was launched as long ago, at most, as offerings that failed are remembered.
	LaunchedLately []Launch
	// FullSubnets are those without free addresses; ClosedZones gives the zones in which a NodeClass has no
	// other.
	FullSubnets []string
	ClosedZones func(nodeClass string) []string
}

// Launch of one instance for a NodePool.
type Launch struct{ NodePool, InstanceType string }

// PoolInput is a NodePool with the catalogue of its NodeClass.
type PoolInput struct {
	overlay.Pool
	// Used is the capacity that counts against the limits, nodes the number of nodes.
	Used  resource.Vector
	Nodes int64
}

// MinValuesBestEffort is the policy under which minValues that cannot be met are lowered.
const MinValuesBestEffort = "BestEffort"
