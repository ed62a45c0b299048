package provisioner

import (
	"fmt"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"

	"millwright/events"
	"millwright/planner/world"
	"millwright/services/internal/service"
)

// shifts are the zones, by NodePool, that were last told to be shifted away from.
type shifts map[string][]events.ZonalShift

// shiftToldFor is how long an equal KubeEvent is dropped.
const shiftToldFor = time.Hour

// note takes in what the World says, and returns what to tell: a zone that is not offered to a NodePool any
// more, or again.
func (s *shifts) note(w *world.World) (tell []service.KubeEvent) {
	if len(*s) == 0 && len(w.AllZonalShifts()) == 0 {
		return nil
	}
	next := shifts{}
	for _, p := range w.NodePools() {
		now, before := w.ZonalShifts(p.Spec.Template.Spec.NodeClassRef.Name), (*s)[p.Name]
		if len(now) > 0 {
			next[p.Name] = now
		}
		for _, x := range now {
			if !hasZone(before, x) {
				tell = append(tell, service.KubeEvent{Object: poolReference(p.Name), Type: corev1.EventTypeWarning, Reason: "ZonalShiftActive", DedupeFor: shiftToldFor,
					Message: fmt.Sprintf("Zonal shift detected: offerings in zone %s (%s) are unavailable for this NodePool", x.Zone, x.ZoneID)})
			}
		}
		for _, x := range before {
			if !hasZone(now, x) {
				tell = append(tell, service.KubeEvent{Object: poolReference(p.Name), Type: corev1.EventTypeNormal, Reason: "ZonalShiftCleared",
					Message: fmt.Sprintf("Zonal shift ended: offerings in zone %s (%s) are available again for this NodePool", x.Zone, x.ZoneID)})
			}
		}
	}
	*s = next
	return tell
}

func hasZone(list []events.ZonalShift, x events.ZonalShift) bool {
	return slices.ContainsFunc(list, func(o events.ZonalShift) bool { return o.ZoneID == x.ZoneID })
}
