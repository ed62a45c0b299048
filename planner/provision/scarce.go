package provision

import (
	"slices"

	karpv1 "millwright/api/karpenter/v1"
	"millwright/planner"
	"millwright/planner/ledger"
)

// launchedLately are the claims whose instance was asked for at most as long ago as a mark can last.
func launchedLately(s *planner.Snapshot) []*ledger.Claim {
	since := s.Now.Add(-s.Options.OfferingBackoffMax)
	var list []*ledger.Claim
	for _, c := range s.Ledger.Claims() {
		if c.Instance != nil && c.OpenedAt.After(since) {
			list = append(list, c)
		}
	}
	return list
}

// noMachines are the codes by which EC2 says that it has no machine left, whatever is paid for it.
var noMachines = []string{"InsufficientInstanceCapacity", "UnfulfillableCapacity"}

// suspects are the offerings of instance types that EC2 lacks in the same zone under another capacity type,
// unless something that was planned since was launched there: spot and on-demand instances run on the same
// machines. What has a mark of its own is none.
func suspects(s *planner.Snapshot, lately []*ledger.Claim) []ledger.OfferingKey {
	launched := map[ledger.OfferingKey]uint64{}
	for _, c := range lately {
		k := ledger.OfferingKey{InstanceType: c.Instance.InstanceType, Zone: c.Instance.Zone, CapacityType: c.Instance.CapacityType}
		launched[k] = max(launched[k], c.PlannedSeq)
	}
	var list []ledger.OfferingKey
	for _, k := range slices.Concat(s.Ledger.UnavailableOfferings(s.Now), s.Ledger.UnprovenOfferings(s.Now)) {
		other := k
		switch k.CapacityType {
		case karpv1.CapacityTypeSpot:
			other.CapacityType = karpv1.CapacityTypeOnDemand
		case karpv1.CapacityTypeOnDemand:
			other.CapacityType = karpv1.CapacityTypeSpot
		}
		mark := s.Ledger.UnavailableOffering(k)
		if other != k && k.PlacementGroup == "" && slices.Contains(noMachines, mark.Code) &&
			launched[other] <= mark.Seq && s.Ledger.UnavailableOffering(other) == nil {
			list = append(list, other)
		}
	}
	return list
}
