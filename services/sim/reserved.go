package sim

import (
	karpv1 "millwright/api/karpenter/v1"
	"millwright/events"
	"millwright/services/sim/cloud"
	"millwright/services/sim/stage"
)

// reservedOfferings are the offerings of the capacity reservations that the EC2NodeClass shows, by instance
// type, as the watcher's poller makes them: capacity blocks that are about to end are left out.
func (s *Sim) reservedOfferings() map[string][]events.CatalogOffering {
	nc := s.Cluster.NodeClass(stage.NodeClassName)
	if nc == nil {
		return nil
	}
	free := map[string]int64{}
	for _, r := range s.Cloud.Reservations() {
		free[r.ID] = s.Cloud.Free(r)
	}
	offerings := map[string][]events.CatalogOffering{}
	for _, r := range nc.Status.CapacityReservations {
		if r.State == "expiring" {
			continue
		}
		n := free[r.ID]
		offerings[r.InstanceType] = append(offerings[r.InstanceType], events.CatalogOffering{
			Zone: r.AvailabilityZone, ZoneID: cloud.ZoneID(r.AvailabilityZone), CapacityType: karpv1.CapacityTypeReserved, Available: true,
			Reservation: &events.CatalogReservation{ID: r.ID, Type: r.ReservationType, Free: &n},
		})
	}
	return offerings
}
