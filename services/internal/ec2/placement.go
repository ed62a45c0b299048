package ec2

import (
	"context"
	"slices"
	"strings"

	"github.com/aws/aws-sdk-go-v2/aws"
	awsec2 "github.com/aws/aws-sdk-go-v2/service/ec2"
	ec2types "github.com/aws/aws-sdk-go-v2/service/ec2/types"

	awsv1 "millwright/api/karpenteraws/v1"
	"millwright/planner/ledger"
)

// PlacementGroup as EC2 describes it; only available ones are returned.
type PlacementGroup struct {
	ID, Name string
	// Strategy in EC2's words.
	Strategy string
	// Partitions is 0 without the strategy partition.
	Partitions int32
	// Zone of the instances of the strategy cluster; "" while there are none.
	Zone string
}

// DescribePlacementGroup returns the group that the selector names; nil if there is none (ec2 §2.6).
func (c *Client) DescribePlacementGroup(ctx context.Context, s awsv1.PlacementGroupSelector) (*PlacementGroup, error) {
	in := &awsec2.DescribePlacementGroupsInput{Filters: []ec2types.Filter{filter("state", string(ec2types.PlacementGroupStateAvailable))}}
	if s.ID != "" {
		in.GroupIds = []string{s.ID}
	} else {
		in.GroupNames = []string{s.Name}
	}
	out, err := read(ctx, c, "ec2:DescribePlacementGroups", with(c.ec2.DescribePlacementGroups, in))
	if IsNotFound(err) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	i := slices.IndexFunc(out.PlacementGroups, func(g ec2types.PlacementGroup) bool {
		return g.State == ec2types.PlacementGroupStateAvailable && (aws.ToString(g.GroupId) == s.ID || s.ID == "" && aws.ToString(g.GroupName) == s.Name)
	})
	if i < 0 {
		return nil, nil
	}
	g := out.PlacementGroups[i]
	found := &PlacementGroup{ID: aws.ToString(g.GroupId), Name: aws.ToString(g.GroupName), Strategy: string(g.Strategy), Partitions: aws.ToInt32(g.PartitionCount)}
	if g.Strategy == ec2types.PlacementStrategyCluster {
		found.Zone, err = c.zoneOf(ctx, found.Name)
	}
	return found, err
}

// zoneOf is the zone of the instances of a placement group, the first by id; "" if there are none. Those that
// are about to end still hold the group in their zone.
func (c *Client) zoneOf(ctx context.Context, group string) (string, error) {
	in := &awsec2.DescribeInstancesInput{MaxResults: aws.Int32(instancePageSize), Filters: []ec2types.Filter{
		filter("placement-group-name", group),
		filter("instance-state-name", StatePending, StateRunning, StateStopping, StateStopped, StateShuttingDown),
	}}
	found := map[string]Instance{}
	if err := c.describe(ctx, in, found); err != nil || len(found) == 0 {
		return "", err
	}
	return byID(found)[0].Zone, nil
}

// Group sets for each instance and error of a fleet which placement group it is about: the one that its
// launch template names. templates are those of the request.
func (r *FleetResult) Group(templates []ledger.LaunchTemplateRef) {
	if len(templates) == 0 {
		return
	}
	group := templates[0].PlacementGroup // all templates of a launch name the same
	for i := range r.Instances {
		r.Instances[i].Group = group
	}
	for i := range r.Errors {
		r.Errors[i].Group = group
	}
}

// textGroupFull is in EC2's message about a spread placement group with as many instances as it may have in a
// zone (ec2 §4.6).
const textGroupFull = "limit of instances in this spread placement group"

func (e FleetError) groupFull() bool { return strings.Contains(e.Message, textGroupFull) }

// lacksCapacity reports that the offering, the reservation or the group has no room.
func (e FleetError) lacksCapacity() bool {
	return slices.Contains(noCapacityCodes, e.Code) || e.groupFull()
}
