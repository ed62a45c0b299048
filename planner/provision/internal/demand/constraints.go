package demand

// Constraints of ledger.Refusal.
const (
	constraintPod          = "pod"
	ConstraintTaints       = "taints"
	ConstraintRequirements = "requirements"
	ConstraintResources    = "resources"
	ConstraintOffering     = "offering"
	ConstraintLimits       = "limits"
	ConstraintVolumes      = "volumes"
	ConstraintTopology     = "topology"
	ConstraintNodePool     = "nodepool"
)
