package provision

import (
	"maps"
	"slices"

	corev1 "k8s.io/api/core/v1"

	awsv1 "millwright/api/karpenteraws/v1"
	"millwright/planner/options"
	"millwright/planner/provision/internal/demand"
	"millwright/planner/provision/internal/volume"
	"millwright/planner/requirement"
	"millwright/planner/world"
)

// Zones says where pods may go by what they ask for themselves.
type Zones struct {
	world *world.World
	// ids of the zones in which any NodeClass has an offering, by name.
	ids     map[string]string
	classes map[*world.PodClass][]string
}

// NewZones of a version of the World.
func NewZones(w *world.World) *Zones {
	z := &Zones{world: w, ids: map[string]string{}, classes: map[*world.PodClass][]string{}}
	for _, class := range w.NodeClasses() {
		c := w.Catalog(class.Name)
		if c == nil {
			continue
		}
		for _, t := range c.Types {
			for i := range t.Offerings {
				z.ids[t.Offerings[i].Zone] = t.Offerings[i].ZoneID
			}
		}
	}
	return z
}

// Of a pod: the zones that its nodeSelector, its required node affinity and its volumes allow, by name. What
// other pods, NodePools and room allow is not considered. None if its volumes cannot be had.
func (z *Zones) Of(p *world.Pod) []string {
	if zones, known := z.classes[p.Class]; known {
		return zones
	}
	volumes, err := volume.Of(z.world, p, &options.Options{Revision: options.PresentRevision})
	if err != nil {
		return nil
	}
	terms := demand.PodTerms(p.Class.Spec)
	var zones []string
	for _, zone := range slices.Sorted(maps.Keys(z.ids)) {
		allowed := func(s requirement.Set) bool {
			return s.Get(corev1.LabelTopologyZone).Has(zone) && s.Get(awsv1.LabelTopologyZoneID).Has(z.ids[zone])
		}
		held := volumes == nil || len(volumes.Alternatives) == 0 || slices.ContainsFunc(volumes.Alternatives, allowed)
		if held && slices.ContainsFunc(terms, allowed) {
			zones = append(zones, zone)
		}
	}
	if len(p.Class.Spec.Volumes) == 0 { // else it depends on the claims of this pod
		z.classes[p.Class] = zones
	}
	return zones
}
