package launch

import (
	"slices"

	awsv1 "millwright/api/karpenteraws/v1"
	"millwright/planner/ledger"
)

// Outdated reports that the request would name what cannot be had by what is known now: an offering that
// unavailable says is marked, a subnet that is in fullSubnets and was not when it was built, or a capacity
// reservation of which free, as from FreeReserved, counts no instance.
func (b Built) Outdated(unavailable func(ledger.OfferingKey) bool, fullSubnets []string, free map[string]int64) bool {
	if b.in.NodeClass != nil && slices.ContainsFunc(b.in.subnets(), func(s awsv1.Subnet) bool { return slices.Contains(fullSubnets, s.ID) }) {
		return true
	}
	for _, c := range b.Selection.Candidates {
		for _, o := range c.Offerings {
			key := ledger.OfferingKey{InstanceType: c.Type.Name, Zone: o.Zone, CapacityType: o.CapacityType, PlacementGroup: o.Group()}
			if unavailable(key) || o.ReservationID != "" && free[o.ReservationID] <= 0 {
				return true
			}
		}
	}
	return false
}
