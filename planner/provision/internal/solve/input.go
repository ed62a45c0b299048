package solve

import (
	"time"

	"k8s.io/apimachinery/pkg/types"

	"millwright/planner/ledger"
	"millwright/planner/provision/internal/overlay"
	"millwright/planner/provision/internal/place"
	"millwright/planner/topology"
	"millwright/planner/world"
)

// Input is everything the solver may look at. The order of its lists does not matter.
type Input struct {
	place.Input
	Now time.Time
	// Pods need a place; Mobile are those that would move if their node were removed in a trial.
	Pods, Mobile []*world.Pod
	// OverlayProblems are NodeOverlays that are not applied.
	OverlayProblems []overlay.Problem
	// Prior is where a pod was placed before; zero if nowhere.
	Prior func(types.UID) place.Target
	// Since is when a pod was placed there, zero if nowhere; excluded are the nodes it is to avoid now.
	Since    func(types.UID) time.Time
	Excluded func(types.UID) []ledger.ExcludedNode
	// LastPodEvent is when a pod last came to a node, ended there, or began to go; zero if none was seen to.
	LastPodEvent func(node string) time.Time
	Namespaces   []topology.Namespace
}
