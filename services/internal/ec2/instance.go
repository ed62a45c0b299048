package ec2

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	awsec2 "github.com/aws/aws-sdk-go-v2/service/ec2"
	ec2types "github.com/aws/aws-sdk-go-v2/service/ec2/types"
)

// States of an instance.
const (
	StatePending      = "pending"
	StateRunning      = "running"
	StateStopping     = "stopping"
	StateStopped      = "stopped"
	StateShuttingDown = "shutting-down"
	StateTerminated   = "terminated"
)

// Instance as EC2 knows it. Fields are empty if the call that returned it does not report them.
type Instance struct {
	ID, State                             string
	InstanceType, Zone, SubnetID, ImageID string
	// CapacityType is spot, reserved or on-demand (ec2 §5).
	CapacityType string
	// ReservationID of the capacity reservation, if it is reserved.
	ReservationID string
	// LaunchTemplateID is known of instances a fleet has just launched.
	LaunchTemplateID string
	// Group is the placement group that was asked for, as in ledger.OfferingKey; known of instances a fleet
	// has just launched. GroupID and Partition are what EC2 says; "" and 0 for none, and as long as it does
	// not.
	Group, GroupID string
	Partition      int32
	// Tenancy is default or dedicated.
	Tenancy string
	// EFAs is the number of EFA interfaces attached.
	EFAs       int
	LaunchTime time.Time
	// SecurityGroupIDs of the primary interface.
	SecurityGroupIDs []string
	Tags             map[string]string
}

// Placement is where an instance was launched.
type Placement struct {
	ImageID, SubnetID string
	SecurityGroupIDs  []string
	// ReservationID as in Instance.
	ReservationID string
}

// Placement of the instance.
func (i Instance) Placement() Placement {
	return Placement{ImageID: i.ImageID, SubnetID: i.SubnetID, SecurityGroupIDs: i.SecurityGroupIDs, ReservationID: i.ReservationID}
}

// Gone reports that the instance is terminated; there is no way back.
func (i Instance) Gone() bool { return i.State == StateTerminated }

// Ending reports that the instance is terminated or about to be.
func (i Instance) Ending() bool { return i.Gone() || i.State == StateShuttingDown }

const (
	instancePageSize = 1000
	idsMax           = 500
)

// DescribeInstances returns the instances with these ids that EC2 knows, terminated ones included, by id. EC2
// fails a whole call because of one unknown id; then the ids are searched by halves. An id that is missing in
// the answer may belong to an instance that is too young to be visible.
func (c *Client) DescribeInstances(ctx context.Context, ids []string) ([]Instance, error) {
	if len(ids) > 1 {
		return c.describeInstances(ctx, ids)
	}
	all, err := c.describing.do(ctx, ids)
	return only(all, ids), err
}

func (c *Client) describeInstances(ctx context.Context, ids []string) ([]Instance, error) {
	found := map[string]Instance{}
	for part := range slices.Chunk(slices.Compact(slices.Sorted(slices.Values(ids))), idsMax) {
		if err := c.describeIDs(ctx, part, found); err != nil {
			return nil, err
		}
	}
	return byID(found), nil
}

// describeIDs finds nothing for an id that EC2 does not know, or could not have made.
func (c *Client) describeIDs(ctx context.Context, ids []string, found map[string]Instance) error {
	err := c.describe(ctx, &awsec2.DescribeInstancesInput{InstanceIds: ids}, found)
	if !IsNotFound(err) && Code(err) != codeMalformedID {
		return err
	}
	if len(ids) == 1 {
		return nil
	}
	half := len(ids) / 2 // halves find one unknown id among 500 in 18 calls instead of 500
	if err := c.describeIDs(ctx, ids[:half], found); err != nil {
		return err
	}
	return c.describeIDs(ctx, ids[half:], found)
}

// DescribeInstancesByTags returns the instances that carry all the tags, by id; the value * asks only for
// the key. No states: all but terminated. Others that EC2 answers with are left out: what is found by its
// tags may be ended.
func (c *Client) DescribeInstancesByTags(ctx context.Context, tags map[string]string, states ...string) ([]Instance, error) {
	if len(tags) == 0 {
		return nil, fmt.Errorf("describe instances: no tags given")
	}
	if len(states) == 0 {
		states = []string{StatePending, StateRunning, StateStopping, StateStopped, StateShuttingDown}
	}
	in := &awsec2.DescribeInstancesInput{
		Filters:    append(tagFilters(tags), filter("instance-state-name", states...)),
		MaxResults: aws.Int32(instancePageSize),
	}
	found := map[string]Instance{}
	if err := c.describe(ctx, in, found); err != nil {
		return nil, err
	}
	maps.DeleteFunc(found, func(_ string, i Instance) bool {
		return !HasTags(i.Tags, tags) || i.State != "" && !slices.Contains(states, i.State)
	})
	return byID(found), nil
}

func (c *Client) describe(ctx context.Context, in *awsec2.DescribeInstancesInput, found map[string]Instance) error {
	var pages Pages
	for p := awsec2.NewDescribeInstancesPaginator(c.ec2, in); p.HasMorePages(); {
		page, err := read(ctx, c, "ec2:DescribeInstances", p.NextPage)
		if err == nil {
			err = pages.Next("ec2:DescribeInstances", page.NextToken)
		}
		if err != nil {
			return err
		}
		for _, r := range page.Reservations {
			for _, i := range r.Instances {
				if id := aws.ToString(i.InstanceId); id != "" {
					found[id] = instanceOf(i)
				}
			}
		}
	}
	return nil
}

func byID(found map[string]Instance) []Instance {
	return sortedValues(found, func(a, b Instance) int { return strings.Compare(a.ID, b.ID) })
}

func instanceOf(i ec2types.Instance) Instance {
	out := Instance{
		ID: aws.ToString(i.InstanceId), InstanceType: string(i.InstanceType), SubnetID: aws.ToString(i.SubnetId),
		ImageID: aws.ToString(i.ImageId), LaunchTime: aws.ToTime(i.LaunchTime), CapacityType: "on-demand", Tags: map[string]string{},
	}
	if i.State != nil {
		out.State = string(i.State.Name)
	}
	if i.Placement != nil {
		out.Zone, out.Tenancy = aws.ToString(i.Placement.AvailabilityZone), string(i.Placement.Tenancy)
		out.GroupID, out.Partition = aws.ToString(i.Placement.GroupId), aws.ToInt32(i.Placement.PartitionNumber)
	}
	if aws.ToString(i.SpotInstanceRequestId) != "" || i.InstanceLifecycle == ec2types.InstanceLifecycleTypeSpot {
		out.CapacityType = "spot"
	}
	if id := reservationOf(i); id != "" {
		out.CapacityType, out.ReservationID = capacityTypeReserved, id
	}
	for _, n := range i.NetworkInterfaces {
		if strings.HasPrefix(aws.ToString(n.InterfaceType), "efa") {
			out.EFAs++
		}
	}
	for _, g := range i.SecurityGroups {
		out.SecurityGroupIDs = append(out.SecurityGroupIDs, aws.ToString(g.GroupId))
	}
	for _, t := range i.Tags {
		out.Tags[aws.ToString(t.Key)] = aws.ToString(t.Value)
	}
	return out
}

// TerminateInstances asks for the end of the instances. Ids that EC2 does not know count as ended. The call
// only initiates termination: describe until Gone. If one may not be terminated, the others still are.
func (c *Client) TerminateInstances(ctx context.Context, ids []string) error {
	var failed map[string]error
	var err error
	if len(ids) == 1 {
		failed, err = c.terminating.do(ctx, ids)
	} else {
		failed, err = c.terminateInstances(ctx, ids)
	}
	for _, id := range ids {
		if err == nil {
			err = failed[id]
		}
	}
	return err
}

// terminateInstances returns the errors by id.
func (c *Client) terminateInstances(ctx context.Context, ids []string) (map[string]error, error) {
	failed := map[string]error{}
	for part := range slices.Chunk(slices.Compact(slices.Sorted(slices.Values(ids))), idsMax) {
		c.terminate(ctx, part, failed)
	}
	return failed, nil
}

func (c *Client) terminate(ctx context.Context, ids []string, failed map[string]error) {
	_, err := write(ctx, c, "ec2:TerminateInstances", with(c.ec2.TerminateInstances, &awsec2.TerminateInstancesInput{InstanceIds: ids}))
	class := Classify(err)
	switch {
	case err == nil || class == NotFound && len(ids) == 1:
	case (class == NotFound || class == Permanent) && len(ids) > 1: // halves find the one it is about
		half := len(ids) / 2
		c.terminate(ctx, ids[:half], failed)
		c.terminate(ctx, ids[half:], failed)
	default:
		for _, id := range ids {
			failed[id] = err
		}
	}
}

// CreateTags sets tags on a resource; other tags of it stay.
func (c *Client) CreateTags(ctx context.Context, resource string, tags map[string]string) error {
	if len(tags) == 0 {
		return nil
	}
	_, err := write(ctx, c, "ec2:CreateTags", with(c.ec2.CreateTags, &awsec2.CreateTagsInput{Resources: []string{resource}, Tags: Tags(tags)}))
	return err
}

// HasTags reports that a resource carries all the tags asked for; the value * asks only for the key.
func HasTags(tags, asked map[string]string) bool {
	for key, want := range asked {
		if have, ok := tags[key]; !ok || want != "*" && have != want {
			return false
		}
	}
	return true
}

// Tags converts to EC2's form, sorted by key.
func Tags(tags map[string]string) []ec2types.Tag {
	var out []ec2types.Tag
	for _, k := range slices.Sorted(maps.Keys(tags)) {
		out = append(out, ec2types.Tag{Key: aws.String(k), Value: aws.String(tags[k])})
	}
	return out
}
