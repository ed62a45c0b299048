package world

import (
	"slices"

	karpv1 "millwright/api/karpenter/v1"
	"millwright/planner/catalog"
)

// OverlaidPools is what NodeOverlays make of the catalogues of NodePools.
type OverlaidPools struct {
	// Revision of the planners' rules that they follow.
	Revision int
	Pools    []OverlaidPool
	// Problems are the NodeOverlays that are not applied, by name.
	Problems []OverlayProblem
}

// OverlaidPool is a NodePool with the catalogue of its NodeClass, as NodeOverlays change it.
type OverlaidPool struct {
	NodePool *karpv1.NodePool
	Catalog  *catalog.Catalog
	// PriceOverlaid and CapacityOverlaid are the types, by name, that a NodeOverlay has changed.
	PriceOverlaid, CapacityOverlaid map[string]bool
}

// OverlayProblem says why a NodeOverlay is not applied.
type OverlayProblem struct {
	NodeOverlay string `json:"nodeOverlay"`
	// Reason as of the condition ValidationSucceeded: RuntimeValidation or Conflict.
	Reason  string `json:"reason"`
	Message string `json:"message"`
}

// ByName returns a pool; ok is false if there is none.
func (o *OverlaidPools) ByName(name string) (p OverlaidPool, ok bool) {
	i := slices.IndexFunc(o.Pools, func(p OverlaidPool) bool { return p.NodePool.Name == name })
	if i < 0 {
		return OverlaidPool{}, false
	}
	return o.Pools[i], true
}

// Overlaid is what build makes of NodeOverlays, NodePools and catalogues, computed once per change of one of
// them and not for every Snapshot. All callers must pass the same build, which follows a revision of the
// planners' rules.
func (w *World) Overlaid(revision int, build func() *OverlaidPools) *OverlaidPools {
	if w.memory != nil {
		return w.overlaid.withMemory(w, revision, build)
	}
	if p := w.overlaid.plain.Load(); p != nil && p.Revision == revision {
		return p
	}
	built := build()
	built.Revision = revision
	w.overlaid.plain.Store(built)
	return built
}
