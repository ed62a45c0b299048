package sim_test

import (
	"testing"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/ec2"
	ec2types "github.com/aws/aws-sdk-go-v2/service/ec2/types"

	"millwright/tools/ec2sim/simclient"
)

// group makes a placement group and returns its id.
func (w *world) group(name string, strategy ec2types.PlacementStrategy, partitions int32) string {
	w.t.Helper()
	in := &ec2.CreatePlacementGroupInput{GroupName: aws.String(name), Strategy: strategy}
	if partitions > 0 {
		in.PartitionCount = aws.Int32(partitions)
	}
	out, err := w.ec2.CreatePlacementGroup(ctxb(), in)
	w.must(err)
	return aws.ToString(out.PlacementGroup.GroupId)
}

// groupTemplate makes a launch template that names a placement group, and a partition unless that is 0.
func (w *world) groupTemplate(name, id string, partition int32) {
	w.t.Helper()
	p := &ec2types.LaunchTemplatePlacementRequest{GroupId: aws.String(id)}
	if partition > 0 {
		p.PartitionNumber = aws.Int32(partition)
	}
	_, err := w.ec2.CreateLaunchTemplate(ctxb(), &ec2.CreateLaunchTemplateInput{
		LaunchTemplateName: aws.String(name),
		LaunchTemplateData: &ec2types.RequestLaunchTemplateData{ImageId: aws.String(w.image("x86_64")), Placement: p},
	})
	w.must(err)
}

// many asks for several instances of a type and returns the answer.
func (w *world) many(template string, n int32, zones []string, instanceType string) *ec2.CreateFleetOutput {
	w.t.Helper()
	in := w.fleetInput(template, zones, instanceType)
	in.TargetCapacitySpecification.TotalTargetCapacity, in.ClientToken = aws.Int32(n), nil
	out, err := w.ec2.CreateFleet(ctxb(), in)
	w.must(err)
	return out
}

func launchedOf(out *ec2.CreateFleetOutput) (ids []string) {
	for _, i := range out.Instances {
		ids = append(ids, i.InstanceIds...)
	}
	return ids
}

// codesOf are the codes of a fleet's errors.
func codesOf(out *ec2.CreateFleetOutput) (codes []string) {
	for _, e := range out.Errors {
		codes = append(codes, aws.ToString(e.ErrorCode))
	}
	return codes
}

func (w *world) placement(id string) *ec2types.Placement {
	w.t.Helper()
	out, err := w.ec2.DescribeInstances(ctxb(), &ec2.DescribeInstancesInput{InstanceIds: []string{id}})
	w.must(err)
	return out.Reservations[0].Instances[0].Placement
}

func TestPlacementGroupsAreMadeFoundAndDeleted(t *testing.T) {
	w := newWorld(t)
	id := w.group("rows", ec2types.PlacementStrategyPartition, 3)
	_, err := w.ec2.CreatePlacementGroup(ctxb(), &ec2.CreatePlacementGroupInput{GroupName: aws.String("rows")})
	wantCode(t, err, "InvalidPlacementGroup.Duplicate")
	_, err = w.ec2.CreatePlacementGroup(ctxb(), &ec2.CreatePlacementGroupInput{GroupName: aws.String("x"), Strategy: "partition", PartitionCount: aws.Int32(8)})
	wantCode(t, err, "InvalidParameterValue")
	_, err = w.ec2.CreatePlacementGroup(ctxb(), &ec2.CreatePlacementGroupInput{GroupName: aws.String("x"), Strategy: "spread", PartitionCount: aws.Int32(2)})
	wantCode(t, err, "InvalidParameterCombination")
	for name, in := range map[string]*ec2.DescribePlacementGroupsInput{
		"by name":   {GroupNames: []string{"rows"}},
		"by id":     {GroupIds: []string{id}},
		"by filter": {Filters: []ec2types.Filter{filterBy("strategy", "partition"), filterBy("state", "available")}},
	} {
		out, err := w.ec2.DescribePlacementGroups(ctxb(), in)
		w.must(err)
		if len(out.PlacementGroups) != 1 || aws.ToString(out.PlacementGroups[0].GroupId) != id || aws.ToInt32(out.PlacementGroups[0].PartitionCount) != 3 {
			t.Errorf("%s: %+v", name, out.PlacementGroups)
		}
	}
	_, err = w.ec2.DescribePlacementGroups(ctxb(), &ec2.DescribePlacementGroupsInput{GroupNames: []string{"other"}})
	wantCode(t, err, "InvalidPlacementGroup.Unknown")
	w.groupTemplate("inside", id, 0)
	w.many("inside", 1, a, "m5.large")
	_, err = w.ec2.DeletePlacementGroup(ctxb(), &ec2.DeletePlacementGroupInput{GroupName: aws.String("rows")})
	wantCode(t, err, "InvalidPlacementGroup.InUse")
	w.group("empty", ec2types.PlacementStrategyCluster, 0)
	_, err = w.ec2.DeletePlacementGroup(ctxb(), &ec2.DeletePlacementGroupInput{GroupName: aws.String("empty")})
	w.must(err)
}

func TestPartitionsFillEvenlyUnlessOneIsNamed(t *testing.T) {
	w := newWorld(t)
	id := w.group("rows", ec2types.PlacementStrategyPartition, 3)
	w.groupTemplate("any", id, 0)
	w.groupTemplate("third", id, 3)
	count := map[int32]int{}
	for _, i := range append(launchedOf(w.many("any", 4, a, "m5.large")), launchedOf(w.many("third", 2, a, "m5.large"))...) {
		p := w.placement(i)
		if aws.ToString(p.GroupId) != id || aws.ToString(p.GroupName) != "rows" {
			t.Errorf("%s is in %q", i, aws.ToString(p.GroupId))
		}
		count[aws.ToInt32(p.PartitionNumber)]++
	}
	if count[1] != 2 || count[2] != 1 || count[3] != 3 {
		t.Errorf("instances by partition: %v", count)
	}
	w.groupTemplate("fourth", id, 4)
	if out := w.many("fourth", 1, a, "m5.large"); len(launchedOf(out)) > 0 || codesOf(out)[0] != "InvalidParameterValue" {
		t.Errorf("a partition that does not exist: %+v, %v", out.Instances, codesOf(out))
	}
}

func TestASpreadGroupTakesSevenInstancesInAZone(t *testing.T) {
	w := newWorld(t)
	id := w.group("wide", ec2types.PlacementStrategySpread, 0)
	w.groupTemplate("inside", id, 0)
	out := w.many("inside", 9, a, "m5.large")
	if len(launchedOf(out)) != 7 || len(out.Errors) != 1 {
		t.Fatalf("%d launched, errors %v", len(launchedOf(out)), codesOf(out))
	}
	if got := w.many("inside", 1, []string{"us-west-2b"}, "m5.large"); len(launchedOf(got)) != 1 {
		t.Errorf("none in another zone: %v", codesOf(got))
	}
}

func TestAClusterGroupIsInOneZoneAndTakesNoTypeWithoutIt(t *testing.T) {
	w := newWorld(t)
	id := w.group("near", ec2types.PlacementStrategyCluster, 0)
	w.groupTemplate("inside", id, 0)
	if out := w.many("inside", 1, a, "t3.medium"); len(launchedOf(out)) > 0 || codesOf(out)[0] != "InvalidParameterCombination" {
		t.Errorf("a burstable type: %+v, %v", out.Instances, codesOf(out))
	}
	if out := w.many("inside", 2, a, "m5.large"); len(launchedOf(out)) != 2 {
		t.Fatalf("launched %v: %v", launchedOf(out), codesOf(out))
	}
	if out := w.many("inside", 1, []string{"us-west-2b"}, "m5.large"); len(launchedOf(out)) > 0 || codesOf(out)[0] != "InsufficientInstanceCapacity" {
		t.Errorf("in another zone: %+v, %v", out.Instances, codesOf(out))
	}
	found, err := w.ec2.DescribeInstances(ctxb(), &ec2.DescribeInstancesInput{Filters: []ec2types.Filter{filterBy("placement-group-name", "near")}})
	w.must(err)
	if len(found.Reservations) != 2 {
		t.Errorf("%d instances by the name of their group", len(found.Reservations))
	}
	// There may be no capacity in the group alone.
	w.must(w.control.SetCapacity(ctxb(), simclient.Capacity{PlacementGroup: id, Limit: 2}))
	w.template("outside")
	if in, out := w.many("inside", 1, a, "m5.large"), w.many("outside", 1, a, "m5.large"); len(launchedOf(in)) != 0 || len(launchedOf(out)) != 1 {
		t.Errorf("in the group %v, outside %v: %v", launchedOf(in), launchedOf(out), codesOf(out))
	}
}
