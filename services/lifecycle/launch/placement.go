package launch

import (
	"cmp"
	"slices"
	"strconv"
	"strings"

	"github.com/aws/aws-sdk-go-v2/aws"
	ec2types "github.com/aws/aws-sdk-go-v2/service/ec2/types"

	awsv1 "millwright/api/karpenteraws/v1"
	"millwright/planner/catalog"
	"millwright/planner/requirement"
	"millwright/services/internal/ec2"
)

// groupID of the placement group that the class names; "" for none.
func (in Input) groupID() string {
	if in.NodeClass.Spec.PlacementGroupSelector == nil || in.NodeClass.Status.PlacementGroup == nil {
		return ""
	}
	return in.NodeClass.Status.PlacementGroup.ID
}

// groupUnknown is the failure of a launch whose class names a placement group that its status does not have;
// nil for others.
func groupUnknown(nc *awsv1.EC2NodeClass) error {
	if nc.Spec.PlacementGroupSelector == nil || nc.Status.PlacementGroup != nil {
		return nil
	}
	return &ec2.Failure{Class: ec2.NotReady, Reason: "NodeClassNotReady", Message: "NodeClass has not resolved its placement group"}
}

// inGroup keeps the offerings of one place in the placement group, each type and zone once, and returns the
// group and the partition to be asked for (ec2 §2.6):
//
//   - a claim that leaves the partition open leaves it to EC2: no partition is asked for;
//   - of a claim that allows some of the partitions, the first with an offering is asked for;
//   - a group of the strategy cluster is in one zone: that of the cheapest offering, for all claims alike.
func inGroup(in Input, candidates []Candidate, reqs requirement.Set) ([]Candidate, string) {
	g := in.NodeClass.Status.PlacementGroup
	if in.groupID() == "" {
		return candidates, ""
	}
	switch g.Strategy {
	case awsv1.PlacementStrategyCluster:
		zone := cheapestZone(candidates)
		return keeping(candidates, func(o *catalog.Offering) bool { return o.Zone == zone }), g.ID
	case awsv1.PlacementStrategyPartition:
		if !isOpen(reqs.Get(awsv1.LabelPlacementGroupPartition), g.PartitionCount) {
			first := firstPartition(candidates)
			return keeping(candidates, func(o *catalog.Offering) bool { return o.Partition == first }), g.ID + "/" + strconv.Itoa(int(first))
		}
		return oncePerPlace(candidates), g.ID
	}
	return candidates, g.ID
}

// isOpen: a requirement allows all partitions there are.
func isOpen(r requirement.Requirement, partitions int32) bool {
	for n := range partitions {
		if !r.Has(strconv.Itoa(int(n + 1))) {
			return false
		}
	}
	return true
}

func firstPartition(candidates []Candidate) int32 {
	first := candidates[0].Offerings[0].Partition
	for _, c := range candidates {
		for _, o := range c.Offerings {
			first = min(first, o.Partition)
		}
	}
	return first
}

// cheapestZone is the zone of the cheapest offering, the first by name.
func cheapestZone(candidates []Candidate) string {
	best := &candidates[0].Offerings[0]
	for _, c := range candidates {
		for i := range c.Offerings {
			if o := &c.Offerings[i]; cmp.Or(cmp.Compare(o.Price, best.Price), cmp.Compare(o.Rank, best.Rank), cmp.Compare(o.Zone, best.Zone)) < 0 {
				best = o
			}
		}
	}
	return best.Zone
}

// oncePerPlace keeps one of the offerings that differ in nothing but the partition.
func oncePerPlace(candidates []Candidate) []Candidate {
	var out []Candidate
	for _, c := range candidates {
		type place struct{ zone, capacityType, reservation string }
		seen := map[place]bool{}
		c.Offerings = slices.DeleteFunc(slices.Clone(c.Offerings), func(o catalog.Offering) bool {
			p := place{o.Zone, o.CapacityType, o.ReservationID}
			again := seen[p]
			seen[p] = true
			return again
		})
		out = append(out, c)
	}
	return out
}

func keeping(candidates []Candidate, want func(*catalog.Offering) bool) []Candidate {
	var out []Candidate
	for _, c := range candidates {
		c.Offerings = slices.DeleteFunc(slices.Clone(c.Offerings), func(o catalog.Offering) bool { return !want(&o) })
		if len(c.Offerings) > 0 {
			out = append(out, c)
		}
	}
	return out
}

// placement of a launch template; nil if EC2 may place the instance as it likes.
func placement(s Selection) *ec2types.LaunchTemplatePlacementRequest {
	p := &ec2types.LaunchTemplatePlacementRequest{}
	if s.Tenancy == string(ec2types.TenancyDedicated) {
		p.Tenancy = ec2types.TenancyDedicated
	}
	id, number, _ := strings.Cut(s.Group, "/")
	if id != "" {
		p.GroupId = aws.String(id)
	}
	if n, err := strconv.ParseInt(number, 10, 32); err == nil {
		p.PartitionNumber = aws.Int32(int32(n))
	}
	if p.Tenancy == "" && p.GroupId == nil {
		return nil
	}
	return p
}

// groupLabels are those of an instance in a placement group. The partition is empty until EC2 says which it
// is, if none was asked for: registration waits for it.
func groupLabels(nc *awsv1.EC2NodeClass, i ec2.Instance) map[string]string {
	id, number, _ := strings.Cut(i.Group, "/")
	if id = cmp.Or(id, i.GroupID); id == "" {
		return nil
	}
	labels := map[string]string{awsv1.LabelPlacementGroupID: id}
	if i.Partition > 0 {
		number = strconv.Itoa(int(i.Partition))
	}
	partitioned := nc != nil && nc.Status.PlacementGroup != nil && nc.Status.PlacementGroup.ID == id &&
		nc.Status.PlacementGroup.Strategy == awsv1.PlacementStrategyPartition
	if partitioned || number != "" {
		labels[awsv1.LabelPlacementGroupPartition] = number
	}
	return labels
}
