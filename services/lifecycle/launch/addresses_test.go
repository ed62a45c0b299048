package launch

import (
	"context"
	"fmt"
	"net/http"
	"net/http/httptest"
	"slices"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	ec2types "github.com/aws/aws-sdk-go-v2/service/ec2/types"

	awsv1 "millwright/api/karpenteraws/v1"
	"millwright/planner/ledger"
	"millwright/services/internal/ec2"
	"millwright/tools/ec2sim/simclient"
)

// A subnet on an Outpost is picked only where a zone has no other, however many addresses it has.
func TestOutpostsAreLeftToZonesThatHaveNothingElse(t *testing.T) {
	a := newAddresses()
	a.seen([]ec2.Subnet{{ID: "rack-a", FreeAddresses: 4000, OutpostARN: "arn"}, {ID: "a", FreeAddresses: 10}, {ID: "rack-b", FreeAddresses: 1, OutpostARN: "arn"}}, start)
	got := a.promise("1", []awsv1.Subnet{{ID: "rack-a", Zone: "a"}, {ID: "a", Zone: "a"}, {ID: "rack-b", Zone: "b"}}, map[string]int64{"a": 5, "b": 5}, 1, start)
	if got["a"] != "a" || got["b"] != "rack-b" {
		t.Errorf("picked %v", got)
	}
}

// TestLaunchesSpreadOverSubnetsByWhatIsLeft follows ec2 §4.3.
func TestLaunchesSpreadOverSubnetsByWhatIsLeft(t *testing.T) {
	a, now := newAddresses(), start
	subnets := []awsv1.Subnet{{ID: "s1", Zone: "a"}, {ID: "s2", Zone: "a"}, {ID: "s3", Zone: "b"}}
	launch := func(token string, want string) {
		t.Helper()
		now = now.Add(time.Second)
		if got := fmt.Sprint(a.promise(token, subnets, map[string]int64{"a": 10, "b": 10}, 1, now)); got != want {
			t.Errorf("launch %s goes to %s, want %s", token, got, want)
		}
	}
	count := func(s1, s2 int32) {
		now = now.Add(time.Second)
		a.seen([]ec2.Subnet{{ID: "s1", FreeAddresses: s1}, {ID: "s2", FreeAddresses: s2}, {ID: "s3"}}, now)
	}
	settle := func(token, subnet string) { now = now.Add(time.Second); a.settlePromise(token, []string{subnet}, now) }
	launch("nothing counted: by status, less in flight", "map[a:s1 b:s3]")
	launch("the other one", "map[a:s2 b:s3]")
	settle("nothing counted: by status, less in flight", "")
	settle("the other one", "")
	count(15, 22)
	launch("1", "map[a:s2 b:s3]") // 15 12
	launch("2", "map[a:s1 b:s3]") // 5 12
	settle("2", "s3")             // 15 12: it is in the other zone
	launch("3", "map[a:s1 b:s3]") // 5 12
	count(15, 22)                 // EC2 counts none of 1 and 3, which are under way: 5 12
	launch("4", "map[a:s2 b:s3]") // 5 2
	settle("1", "s2")
	settle("3", "s1")
	settle("4", "s2")
	launch("5", "map[a:s1 b:s3]") // -5 2
	settle("5", "s1")
	count(9, 8) // all are counted
	launch("6", "map[a:s1 b:s3]")
	settle("6", "")
	now = now.Add(promiseMax + time.Minute)
	count(9, 8)
	if n := len(a.promises); n != 0 {
		t.Errorf("%d promises are kept after they were counted", n)
	}
	now = now.Add(2 * addressMemory)
	a.seen(nil, now)
	if n := len(a.counts); n != 0 {
		t.Errorf("%d counts of subnets are kept that nobody asks about any more", n)
	}
}

// A fleet is as large as the best of a zone's subnets has addresses for the pods of; where there is no
// choice of subnets, as large as there are addresses for instances: that pods may lack addresses is no
// reason to launch a thousand nodes one by one. A zone without any address does not hold up the others.
func TestAFleetIsAsLargeAsItsSubnetsHaveRoomFor(t *testing.T) {
	a, zones := newAddresses(), map[string]int64{"a": 29, "b": 29}
	subnets := []awsv1.Subnet{{ID: "a1", Zone: "a"}, {ID: "a2", Zone: "a"}, {ID: "b", Zone: "b"}, {ID: "c", Zone: "c"}}
	room := func(want int) {
		t.Helper()
		if got := a.room(subnets, zones, 40); got != want {
			t.Errorf("there is room for %d, want %d", got, want)
		}
	}
	count := func(after time.Duration, a1, a2, b int32) {
		a.seen([]ec2.Subnet{{ID: "a1", FreeAddresses: a1}, {ID: "a2", FreeAddresses: a2}, {ID: "b", FreeAddresses: b}, {ID: "c"}}, start.Add(after))
	}
	room(40) // nothing was counted yet
	count(0, 100, 60, 200)
	room(3)                                  // by a1; of b there is no other
	a.promise("1", subnets, zones, 3, start) // a1 13, a2 60
	room(2)
	a.promise("2", subnets, zones, 2, start) // a1 13, a2 2
	room(40)                                 // 97 instances of their own in a1
	a.settlePromise("1", []string{"a1", "a1", "a1"}, start)
	a.promise("3", subnets, zones, 80, start)
	room(40)                                  // of a2, which has more left: 58 of their own
	a.promise("4", subnets, zones, 40, start) // a2 18, a1 17
	room(18)
	count(time.Hour, 0, 0, 33)
	room(33) // zone a has none at all
	count(2*time.Hour, 0, 0, 0)
	room(1)
}

// TestALaunchOfUnknownEndIsForgotten although nobody asks about its subnets any more.
func TestALaunchOfUnknownEndIsForgotten(t *testing.T) {
	a := newAddresses()
	a.promise("1", []awsv1.Subnet{{ID: "s1", Zone: "a"}}, map[string]int64{"a": 10}, 1, start)
	a.seen(nil, start.Add(time.Minute))
	if len(a.promises) != 1 {
		t.Error("forgotten at once")
	}
	if a.seen(nil, start.Add(2*addressMemory)); len(a.promises) != 0 {
		t.Error("kept for ever")
	}
}

// TestAddressesRunOutInSimulatedAccount goes over HTTP and the AWS SDK: launches at a time take a zone's
// subnets in turn; one without free addresses is marked by what EC2 answered, the zone's other one is used,
// and nobody else's offerings suffer.
func TestAddressesRunOutInSimulatedAccount(t *testing.T) {
	ctx, a := context.Background(), newAccount(t)
	server := httptest.NewServer(a.sim)
	t.Cleanup(server.Close)
	a.reach(t, server.URL, http.DefaultTransport)
	control := &simclient.Client{URL: server.URL, HTTP: http.DefaultClient}
	found, err := a.cloud.DescribeSubnets(ctx, []awsv1.SubnetSelectorTerm{{Tags: map[string]string{"Name": "blue-*-eu-west-1a"}}})
	if err != nil || len(found) != 2 {
		t.Fatalf("subnets %+v, %v", found, err)
	}
	large, small := found[0].ID, found[1].ID
	free := func(id string, n int) {
		t.Helper()
		if err := control.SetAvailableAddresses(ctx, id, n); err != nil {
			t.Fatal(err)
		}
	}
	free(large, 100)
	free(small, 90)
	nc := a.class(t, "al2023@latest", func(s *awsv1.EC2NodeClassSpec) {
		s.SubnetSelectorTerms = []awsv1.SubnetSelectorTerm{{ID: large}, {ID: small}}
	})
	l, seq := ledger.New("log"), uint64(0)
	launch := func(token string) (asked string, r ec2.FleetResult) {
		t.Helper()
		in := input(nc, claim(capacityTypes("on-demand")), m5large, c5large)
		in.FullSubnets = l.UnavailableSubnets(a.now)
		built, err := a.builder.Build(ctx, in)
		if err != nil {
			t.Fatal(err)
		}
		request := requestOf(a.builder, built, token)
		if r, err = a.cloud.CreateFleet(ctx, request); err != nil {
			t.Fatal(err)
		}
		var ids []string
		for _, c := range request.LaunchTemplateConfigs {
			ids = append(ids, subnetsOf(c)...)
		}
		slices.Sort(ids)
		if ids = slices.Compact(ids); len(ids) != 1 {
			t.Fatalf("subnets %v of one zone are asked for", ids)
		}
		return ids[0], r
	}
	for i, want := range []string{large, small, large} { // 100 90, 71 90, 71 61
		if got, _ := launch(fmt.Sprint("flight-", i)); got != want {
			t.Errorf("launch %d goes to %s, want %s", i, got, want)
		}
	}
	free(large, 0)                                      // somebody else took them
	if asked, _ := launch("flight-3"); asked != small { // 42 61
		t.Errorf("launch 3 goes to %s, want %s", asked, small)
	}
	asked, r := launch("refused") // 42 32
	f := r.Failure()
	if asked != large || f == nil || f.Class != ec2.NoCapacity || len(f.Unavailable) != 1 || f.Unavailable[0].SubnetID != large || f.Unavailable[0].Zone != "eu-west-1a" {
		t.Fatalf("asked for %s: %+v", asked, f)
	}
	seq++
	if err := l.Apply(ledger.Entry{Seq: seq, Kind: ledger.KindLaunchFailed, Time: a.now, Now: a.now, Payload: &ledger.LaunchFailed{Claim: "c", Unavailable: f.Unavailable}}); err != nil {
		t.Fatal(err)
	}
	if k := l.UnavailableOfferings(a.now); len(k) != 0 {
		t.Errorf("offerings are marked: %v", k)
	}
	for i := range 3 {
		if asked, r := launch(fmt.Sprint("other-", i)); asked != small || r.Failure() != nil {
			t.Errorf("launch %d after the mark goes to %s: %v", i, asked, r.Failure())
		}
	}
	in := input(nc, claim(capacityTypes("on-demand")), m5large)
	in.FullSubnets = []string{large, small}
	slices.Sort(in.FullSubnets)
	if _, err := a.builder.Build(ctx, in); ec2.Classify(err) != ec2.NoCapacity {
		t.Errorf("with no subnet left: %v", err)
	}
}

func subnetsOf(c ec2types.FleetLaunchTemplateConfigRequest) (ids []string) {
	for _, o := range c.Overrides {
		ids = append(ids, aws.ToString(o.SubnetId))
	}
	return ids
}
