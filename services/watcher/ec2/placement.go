package ec2

import (
	"slices"
	"strconv"

	ec2types "github.com/aws/aws-sdk-go-v2/service/ec2/types"

	karpawsv1 "millwright/api/karpenteraws/v1"
	"millwright/events"
)

// lacksPlacement: instances of the type cannot be in the placement group that the class names.
func (s *sizing) lacksPlacement(t *ec2types.InstanceTypeInfo) string {
	if !s.grouped {
		return ""
	}
	if s.group == nil {
		return "placementGroupSelector: the placement group is not known"
	}
	if t.PlacementGroupInfo == nil || !slices.Contains(t.PlacementGroupInfo.SupportedStrategies, ec2types.PlacementGroupStrategy(s.group.Strategy)) {
		return "placementGroupSelector: it cannot be in a placement group of the strategy " + s.group.Strategy
	}
	return ""
}

// inGroup: the group takes instances in a zone. One of the strategy cluster is in one zone alone.
func (s *sizing) inGroup(zone string) bool {
	return s.group == nil || s.group.Strategy != karpawsv1.PlacementStrategyCluster || s.group.Zone == "" || s.group.Zone == zone
}

// opens: instances may be launched in a zone.
func (s *sizing) opens(zone string) bool { return s.inGroup(zone) && !isShifted(s.shifts, zone) }

// addGroup says of all offerings of a type in which placement group they are, once for each of its
// partitions, and adds the possible values to the type's labels. A nil group changes nothing.
func addGroup(t *events.CatalogInstanceType, g *karpawsv1.PlacementGroup) {
	if g == nil {
		return
	}
	l := labels(t.Requirements)
	l.one(karpawsv1.LabelPlacementGroupID, g.ID)
	if g.Strategy != karpawsv1.PlacementStrategyPartition || g.PartitionCount < 1 {
		l.optional(karpawsv1.LabelPlacementGroupPartition, "")
		for i := range t.Offerings {
			t.Offerings[i].PlacementGroup = g.ID
		}
		return
	}
	var offerings []events.CatalogOffering
	var numbers []string
	for n := range g.PartitionCount {
		numbers = append(numbers, strconv.Itoa(int(n+1)))
	}
	for _, o := range t.Offerings {
		for n := range g.PartitionCount {
			o.PlacementGroup, o.Partition = g.ID, n+1
			offerings = append(offerings, o)
		}
	}
	l.several(karpawsv1.LabelPlacementGroupPartition, numbers)
	t.Offerings = offerings
}
