package launch

import (
	"context"
	"fmt"
	"net/http"
	"slices"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	awsec2 "github.com/aws/aws-sdk-go-v2/service/ec2"
	ec2types "github.com/aws/aws-sdk-go-v2/service/ec2/types"

	awsv1 "millwright/api/karpenteraws/v1"
	"millwright/events"
	"millwright/planner/catalog"
	"millwright/planner/ledger"
	"millwright/services/internal/ec2"
	"millwright/services/lifecycle/nodeclass"
	"millwright/tools/ec2sim/simclient"
)

// grouped puts the offerings of types into a placement group, once for each of its partitions.
func grouped(types []*catalog.InstanceType, g *awsv1.PlacementGroup) []*catalog.InstanceType {
	c := &events.Catalog{NodeClass: "default"}
	prices := catalog.Prices{}
	for _, t := range types {
		it := events.CatalogInstanceType{Name: t.Name, Requirements: map[string][]string{}, Capacity: t.Capacity.Int64(), Overhead: t.Overhead.Int64()}
		for _, r := range t.Requirements.Requirements() {
			it.Requirements[r.Key()] = r.Values()
		}
		for _, o := range t.Offerings {
			prices[catalog.PriceKey{InstanceType: t.Name, CapacityType: o.CapacityType, Zone: o.Zone}] = o.Price
			for n := range max(1, g.PartitionCount) {
				x := events.CatalogOffering{Zone: o.Zone, ZoneID: o.ZoneID, CapacityType: o.CapacityType, Available: true, PlacementGroup: g.ID}
				if g.PartitionCount > 0 {
					x.Partition = n + 1
				}
				it.Offerings = append(it.Offerings, x)
			}
		}
		c.InstanceTypes = append(c.InstanceTypes, it)
	}
	return catalog.New(c, prices).Types
}

// inGroup makes a placement group and a class that names it.
func (a *account) inGroup(t *testing.T, strategy ec2types.PlacementStrategy, partitions int32) *awsv1.EC2NodeClass {
	t.Helper()
	in := &awsec2.CreatePlacementGroupInput{GroupName: aws.String("group"), Strategy: strategy}
	if partitions > 0 {
		in.PartitionCount = aws.Int32(partitions)
	}
	if _, err := a.raw.CreatePlacementGroup(context.Background(), in); err != nil {
		t.Fatal(err)
	}
	return a.class(t, "al2023@latest", func(s *awsv1.EC2NodeClassSpec) {
		s.PlacementGroupSelector = &awsv1.PlacementGroupSelector{Name: "group"}
	})
}

// send builds a launch and sends it.
func (a *account) send(t *testing.T, in Input, token string) ec2.FleetResult {
	t.Helper()
	built, err := a.builder.Build(context.Background(), in)
	if err != nil {
		t.Fatal(err)
	}
	result, err := a.cloud.CreateFleet(context.Background(), requestOf(a.builder, built, token))
	if err != nil {
		t.Fatal(err)
	}
	result.Group(built.Templates)
	a.now = a.now.Add(time.Minute)
	return result
}

// TestPartitionsAreAskedForByNumberOrLeftToEC2 checks what is launched and what the claim is told (ec2 §2.6).
func TestPartitionsAreAskedForByNumberOrLeftToEC2(t *testing.T) {
	a := newAccount(t)
	nc := a.inGroup(t, ec2types.PlacementStrategyPartition, 3)
	g := nc.Status.PlacementGroup
	if g == nil || g.Name != "group" || g.PartitionCount != 3 {
		t.Fatalf("resolved %+v", g)
	}
	for n, c := range []struct {
		allowed []string
		// told is the label right after the launch, told later the one once EC2 shows the instance.
		told, later string
	}{
		{nil, "", "1"},
		{[]string{"1", "2", "3"}, "", "2"},
		{[]string{"3", "2"}, "2", "2"},
		{[]string{"3"}, "3", "3"},
	} {
		cl := claim(capacityTypes("on-demand"))
		if c.allowed != nil {
			cl = claim(capacityTypes("on-demand"), append([]string{awsv1.LabelPlacementGroupPartition}, c.allowed...))
		}
		in := input(nc, cl)
		in.Types = grouped(types(m5large), g)
		result := a.send(t, in, fmt.Sprint("token-", n))
		if len(result.Instances) != 1 {
			t.Fatalf("%v: launched %+v", c.allowed, result)
		}
		labels := Details(nodeclass.Hasher{}, nc, cl, in.Types[0], result.Instances[0]).Labels
		if told, there := labels[awsv1.LabelPlacementGroupPartition]; !there || told != c.told || labels[awsv1.LabelPlacementGroupID] != g.ID {
			t.Errorf("%v: told %v", c.allowed, labels)
		}
		found, err := a.cloud.DescribeInstances(context.Background(), []string{result.Instances[0].ID})
		if err != nil || len(found) != 1 || fmt.Sprint(found[0].Partition) != c.later || found[0].GroupID != g.ID {
			t.Errorf("%v: EC2 shows %+v, %v", c.allowed, found, err)
		}
	}
}

// TestAGroupThatIsFullIsMarkedForAllTypes: the eighth instance of a spread group in a zone.
func TestAGroupThatIsFullIsMarkedForAllTypes(t *testing.T) {
	a := newAccount(t)
	nc := a.inGroup(t, ec2types.PlacementStrategySpread, 0)
	in := input(nc, claim(capacityTypes("on-demand"), []string{"topology.kubernetes.io/zone", "eu-west-1a"}))
	in.Types = grouped(types(m5large, m5xlarge), nc.Status.PlacementGroup)
	for n := range 7 {
		if r := a.send(t, in, fmt.Sprint("token-", n)); len(r.Instances) != 1 {
			t.Fatalf("%d: %+v", n, r)
		}
	}
	f := a.send(t, in, "token-8").Failure()
	want := []ledger.FailedOffering{{Zone: "eu-west-1a", Code: "PlacementGroupLimitExceeded", PlacementGroup: nc.Status.PlacementGroup.ID}}
	if f == nil || f.Class != ec2.NoCapacity || !slices.Equal(f.Unavailable, want) {
		t.Errorf("failed with %+v", f)
	}
}

// TestAClusterIsLaunchedInOneZone: all claims go to the same zone, and what lacks capacity lacks it in the
// group.
func TestAClusterIsLaunchedInOneZone(t *testing.T) {
	a := newAccount(t)
	nc := a.inGroup(t, ec2types.PlacementStrategyCluster, 0)
	in := input(nc, claim(capacityTypes("spot")))
	in.Types = grouped(types(m5large, m5xlarge), nc.Status.PlacementGroup)
	s, err := Select(in)
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range s.Candidates {
		for _, o := range c.Offerings {
			if o.Zone != "eu-west-1a" {
				t.Errorf("%s is asked for in %s", c.Type.Name, o.Zone)
			}
		}
	}
	if r := a.send(t, in, "token-1"); len(r.Instances) != 1 || r.Instances[0].Zone != "eu-west-1a" {
		t.Fatalf("launched %+v", r)
	}
	again, _, err := a.reconciler.Reconcile(context.Background(), nc, nil)
	if err != nil || again.Object.Status.PlacementGroup.Zone != "eu-west-1a" {
		t.Errorf("the group is in zone %q, %v", again.Object.Status.PlacementGroup.Zone, err)
	}
	control := &simclient.Client{URL: "http://aws.simulated", HTTP: &http.Client{Transport: a.sim.Transport()}}
	id := nc.Status.PlacementGroup.ID
	if err := control.SetCapacity(context.Background(), simclient.Capacity{PlacementGroup: id, Limit: 1}); err != nil {
		t.Fatal(err)
	}
	f := a.send(t, in, "token-2").Failure()
	if f == nil || len(f.Unavailable) != 2 || f.Unavailable[0].PlacementGroup != id || f.Unavailable[0].InstanceType != "m5.large" {
		t.Fatalf("failed with %+v", f)
	}
	in.Unavailable = Marks(in.Types, func(k ledger.OfferingKey) bool { return k.PlacementGroup == id && k.Zone == "eu-west-1a" })
	if s, err = Select(in); err != nil || s.Candidates[0].Offerings[0].Zone != "eu-west-1b" {
		t.Errorf("chosen next: %+v, %v", s, err)
	}
}

// TestAGroupThatIsNotKnownIsNotLaunchedInto: nor is anything launched outside of it.
func TestAGroupThatIsNotKnownIsNotLaunchedInto(t *testing.T) {
	b := newBench(t)
	nc := readyClass("AL2023")
	nc.Spec.PlacementGroupSelector = &awsv1.PlacementGroupSelector{Name: "group"}
	_, err := b.Build(context.Background(), input(nc, claim(), m5large))
	if ec2.Classify(err) != ec2.NotReady {
		t.Errorf("built: %v", err)
	}
	nc.Status.PlacementGroup = &awsv1.PlacementGroup{ID: "pg-1", Strategy: "cluster"}
	if _, err := b.Build(context.Background(), input(nc, claim(), m5large)); ec2.Classify(err) != ec2.NoCapacity {
		t.Errorf("built from a catalogue without the group: %v", err)
	}
}
