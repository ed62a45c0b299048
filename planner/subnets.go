package planner

import "slices"

// ClosedZones are the zones in which every subnet of a NodeClass is marked as without free addresses, sorted;
// nil if there is none. A NodeClass whose subnets have not been observed has none.
func (s *Snapshot) ClosedZones(nodeClass string) []string {
	marked := s.Ledger.UnavailableSubnets(s.Now)
	nc := s.World.NodeClass(nodeClass)
	if len(marked) == 0 || nc == nil {
		return nil
	}
	var closed, open []string
	for _, subnet := range nc.Status.Subnets {
		if _, full := slices.BinarySearch(marked, subnet.ID); full {
			closed = append(closed, subnet.Zone)
		} else {
			open = append(open, subnet.Zone)
		}
	}
	closed = slices.DeleteFunc(closed, func(zone string) bool { return slices.Contains(open, zone) })
	slices.Sort(closed)
	return slices.Compact(closed)
}
