package provision

import (
	"millwright/planner"
	"millwright/planner/catalog"
	"millwright/planner/provision/internal/demand"
	"millwright/planner/provision/internal/offer"
	"millwright/planner/provision/internal/overlay"
	"millwright/planner/provision/internal/solve"

	corev1 "k8s.io/api/core/v1"
)

// Policies of planner.Options.
const (
	PreferencesIgnore   = solve.PreferencesIgnore
	MinValuesBestEffort = offer.MinValuesBestEffort
)

// ResourceNodes is the key of spec.limits that counts nodes.
const ResourceNodes = offer.ResourceNodes

// PoolProblem says why a NodePool opens no claims.
type PoolProblem = offer.PoolProblem

// ProblemStatic is the reason of a PoolProblem that is no fault: a static NodePool makes nodes for no pods.
const ProblemStatic = offer.ProblemStatic

// OverlayProblem says why a NodeOverlay is not applied.
type OverlayProblem = overlay.Problem

// OverlayProblems are the NodeOverlays that are not applied, by name.
func OverlayProblems(s *planner.Snapshot) []OverlayProblem { return overlay.Problems(s) }

// Catalog is what EC2 offers to the claims of a NodePool, as NodeOverlays change it. Claims without a pool,
// or whose pool has another NodeClass, use their NodeClass's. nil if it has not been observed.
func Catalog(s *planner.Snapshot, nodePool, nodeClass string) *catalog.Catalog {
	return overlay.Catalog(s, nodePool, nodeClass)
}

// ValidatePod says why a pod is not planned for: it refuses our nodes (requirement.ErrNotOurs), or requires
// something forbidden (scheduling §2.2), or needs something that is not supported yet.
func ValidatePod(spec *corev1.PodSpec) error { return demand.ValidatePod(spec) }
