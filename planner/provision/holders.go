package provision

import (
	"cmp"

	"millwright/planner/world"
)

// holders is a World that knows which pods use PersistentVolumeClaims. They are gathered when first asked
// for: few claims are for one pod at a time.
type holders struct {
	*world.World
	byClaim map[string]*world.Pod
}

// Holder implements volume.Holders; of several pods it is the first by name.
func (h *holders) Holder(claim string) *world.Pod {
	if h.byClaim == nil {
		h.byClaim = map[string]*world.Pod{}
		for _, n := range h.Nodes() {
			for _, p := range h.PodsOn(n.Object.Name) {
				h.add(p)
			}
		}
	}
	return h.byClaim[claim]
}

func (h *holders) add(p *world.Pod) {
	if !p.Active() {
		return
	}
	for i := range p.Class.Spec.Volumes {
		v := p.Class.Spec.Volumes[i].PersistentVolumeClaim
		if v == nil {
			continue
		}
		key := p.Namespace + "/" + v.ClaimName
		if was := h.byClaim[key]; was == nil || cmp.Or(cmp.Compare(p.Name, was.Name), cmp.Compare(p.UID, was.UID)) < 0 {
			h.byClaim[key] = p
		}
	}
}
