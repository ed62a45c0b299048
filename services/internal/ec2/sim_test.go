package ec2

import (
	"bytes"
	"context"
	"encoding/json"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	awsec2 "github.com/aws/aws-sdk-go-v2/service/ec2"
	ec2types "github.com/aws/aws-sdk-go-v2/service/ec2/types"

	awsv1 "millwright/api/karpenteraws/v1"
	"millwright/tools/ec2sim/sim"
	"millwright/tools/ec2sim/sim/instance"
	"millwright/tools/ec2sim/simclient"
)

func subnetTerms(cluster string) []awsv1.SubnetSelectorTerm {
	return []awsv1.SubnetSelectorTerm{{Tags: map[string]string{"karpenter.sh/discovery": cluster}}}
}

// account is a simulated account on a clock of its own, with a client.
type account struct {
	*Client
	sim *sim.Server
	now time.Time
}

func newAccount(t *testing.T) *account {
	t.Helper()
	a := &account{now: time.Date(2026, 4, 1, 0, 0, 0, 0, time.UTC)}
	a.sim = sim.New(sim.Config{
		ClusterName: "blue", Now: func() time.Time { return a.now }, Settings: sim.DefaultSettings(), Roles: []string{"extra-role"}, ClusterCA: []byte("ca"),
	})
	a.Client = clientAt(t, "http://aws.simulated", a.sim.Transport(), time.Minute, nil)
	return a
}

// control calls the simulator's control interface.
func (a *account) control(t *testing.T, method, path string, body any) {
	t.Helper()
	b, err := json.Marshal(body)
	if err != nil {
		t.Fatal(err)
	}
	req, err := http.NewRequest(method, "http://aws.simulated/_control/"+path, bytes.NewReader(b))
	if err != nil {
		t.Fatal(err)
	}
	resp, err := a.sim.Transport().RoundTrip(req)
	if err != nil || resp.StatusCode != http.StatusOK {
		t.Fatalf("control %s: %v %v", path, resp, err)
	}
}

const imageParameter = "/aws/service/eks/optimized-ami/1.36/amazon-linux-2023/x86_64/standard/recommended/image_id"

// launch asks for one m5.large.
func (a *account) launch(t *testing.T, token string) FleetResult {
	t.Helper()
	in := a.launchInput(t)
	in.ClientToken = aws.String(token)
	in.TagSpecifications = []ec2types.TagSpecification{{ResourceType: ec2types.ResourceTypeInstance, Tags: Tags(map[string]string{"karpenter.sh/nodeclaim": "c-" + token})}}
	out, err := a.CreateFleet(context.Background(), in)
	if err != nil {
		t.Fatal(err)
	}
	return out
}

// launchInput makes a launch template and returns a request for one instance of it.
func (a *account) launchInput(t *testing.T) *awsec2.CreateFleetInput {
	t.Helper()
	ctx := context.Background()
	image, err := a.SSMParameter(ctx, imageParameter)
	if err != nil {
		t.Fatal(err)
	}
	ref, err := a.EnsureLaunchTemplate(ctx, LaunchTemplate{Name: "karpenter.k8s.aws/1", Data: &ec2types.RequestLaunchTemplateData{ImageId: aws.String(image)}, Tags: map[string]string{"owner": "me"}})
	if err != nil {
		t.Fatal(err)
	}
	subnets, err := a.DescribeSubnets(ctx, subnetTerms("blue"))
	if err != nil || len(subnets) == 0 {
		t.Fatalf("subnets %v: %v", subnets, err)
	}
	slices.SortFunc(subnets, func(a, b Subnet) int { return strings.Compare(a.ID, b.ID) }) // the same one, whatever is launched
	in := fleetInput()
	in.LaunchTemplateConfigs[0].LaunchTemplateSpecification.LaunchTemplateId = aws.String(ref.ID)
	in.LaunchTemplateConfigs[0].LaunchTemplateSpecification.Version = aws.String(ref.Version)
	in.LaunchTemplateConfigs[0].Overrides = []ec2types.FleetLaunchTemplateOverridesRequest{
		{InstanceType: "m5.large", SubnetId: aws.String(subnets[0].ID), AvailabilityZone: aws.String(subnets[0].Zone), ImageId: aws.String(image)},
	}
	in.TargetCapacitySpecification.DefaultTargetCapacityType = ec2types.DefaultTargetCapacityTypeOnDemand
	return in
}

func TestLaunchDescribeTerminate(t *testing.T) {
	ctx, a := context.Background(), newAccount(t)
	first := a.launch(t, "one")
	if len(first.Instances) != 1 || first.Failure() != nil {
		t.Fatalf("launch: %+v", first)
	}
	i := first.Instances[0]
	if i.InstanceType != "m5.large" || i.Zone == "" || i.SubnetID == "" || !strings.HasPrefix(i.ImageID, "ami-") || i.CapacityType != "on-demand" || i.State != StatePending {
		t.Errorf("%+v", i)
	}
	if again := a.launch(t, "one"); again.Instances[0].ID != i.ID {
		t.Error("the same token gave another instance")
	}
	second := a.launch(t, "two").Instances[0]

	got, err := a.DescribeInstances(ctx, []string{second.ID, "i-0123456789abcdef0", i.ID, i.ID})
	if err != nil || len(got) != 2 {
		t.Fatalf("an unknown id hid the known ones: %v %v", got, err)
	}
	tagged, err := a.DescribeInstancesByTags(ctx, map[string]string{"karpenter.sh/nodeclaim": "c-one"})
	if err != nil || len(tagged) != 1 || tagged[0].ID != i.ID || tagged[0].Tags["karpenter.sh/nodeclaim"] != "c-one" {
		t.Errorf("by tag: %v %v", tagged, err)
	}
	if all, err := a.DescribeInstancesByTags(ctx, map[string]string{"karpenter.sh/nodeclaim": "*"}); err != nil || len(all) != 2 {
		t.Errorf("by key: %v %v", all, err)
	}
	if err := a.CreateTags(ctx, i.ID, map[string]string{"Name": "node-1"}); err != nil {
		t.Error(err)
	}
	if err := a.TerminateInstances(ctx, []string{"i-0123456789abcdef0", i.ID}); err != nil {
		t.Errorf("an unknown id counts as ended: %v", err)
	}
	a.now = a.now.Add(time.Minute)
	got, err = a.DescribeInstances(ctx, []string{i.ID, second.ID})
	if err != nil || len(got) != 2 {
		t.Fatal(got, err)
	}
	for _, x := range got {
		if (x.ID == i.ID) != x.Gone() || x.ID == i.ID && x.Tags["Name"] != "node-1" {
			t.Errorf("%+v", x)
		}
	}
	if _, err := a.DescribeInstancesByTags(ctx, nil); err == nil {
		t.Error("no tags would select foreign instances")
	}
}

func TestFleetWithoutCapacity(t *testing.T) {
	a := newAccount(t)
	a.control(t, http.MethodPut, "capacity", []simclient.Capacity{{InstanceType: "m5.large", Limit: 0}})
	f := a.launch(t, "one").Failure()
	if f == nil || f.Class != NoCapacity || len(f.Unavailable) != 1 || f.Unavailable[0].InstanceType != "m5.large" || f.Unavailable[0].CapacityType != "on-demand" || f.Unavailable[0].Zone == "" {
		t.Errorf("%+v", f)
	}
}

func TestLostAnswer(t *testing.T) {
	a := newAccount(t)
	a.control(t, http.MethodPost, "faults", simclient.Fault{Action: "CreateFleet", Drop: true, After: true, Count: 1})
	ctx := context.Background()
	in := fleetInput()
	good := a.launchInput(t)
	in.LaunchTemplateConfigs, in.TargetCapacitySpecification = good.LaunchTemplateConfigs, good.TargetCapacitySpecification
	if _, err := a.CreateFleet(ctx, in); Classify(err) != UnknownOutcome {
		t.Fatalf("%s: %v", Classify(err), err)
	}
	out, err := a.CreateFleet(ctx, in)
	if err != nil || len(out.Instances) != 1 || len(a.sim.Instances()) != 1 {
		t.Errorf("the same bytes again: %+v %v, %d instances", out, err, len(a.sim.Instances()))
	}
	in.TargetCapacitySpecification.TotalTargetCapacity = aws.Int32(2)
	if _, err := a.CreateFleet(ctx, in); Classify(err) != ParameterMismatch {
		t.Errorf("other bytes: %s: %v", Classify(err), err)
	}
}

func TestLaunchTemplates(t *testing.T) {
	ctx, a := context.Background(), newAccount(t)
	want := LaunchTemplate{Name: "karpenter.k8s.aws/abc", Data: &ec2types.RequestLaunchTemplateData{ImageId: aws.String("ami-1")}, Tags: map[string]string{"cluster": "blue", "class": "x"}}
	first, err := a.EnsureLaunchTemplate(ctx, want)
	if err != nil || first.Version != "1" {
		t.Fatal(first, err)
	}
	if second, err := a.EnsureLaunchTemplate(ctx, want); err != nil || second != first {
		t.Errorf("%v %v", second, err)
	}
	found, err := a.DescribeLaunchTemplates(ctx, map[string]string{"cluster": "blue", "class": "*"})
	if err != nil || len(found) != 1 || found[0].ID != first.ID || found[0].Tags["class"] != "x" || found[0].Created.IsZero() {
		t.Errorf("%v %v", found, err)
	}
	for range 2 {
		if err := a.DeleteLaunchTemplate(ctx, first.ID); err != nil {
			t.Errorf("delete: %v", err)
		}
	}
}

func TestInstanceProfiles(t *testing.T) {
	ctx, a := context.Background(), newAccount(t)
	want := InstanceProfile{Name: "blue_1", Path: "/karpenter/us-west-2/blue/uid/", Role: "extra-role", Tags: map[string]string{"k": "v"}}
	for range 2 {
		if err := a.EnsureInstanceProfile(ctx, want); err != nil {
			t.Fatal(err)
		}
	}
	got, err := a.InstanceProfile(ctx, "blue_1")
	if err != nil || got.Role != "extra-role" || got.Path != want.Path || got.Tags["k"] != "v" {
		t.Errorf("%+v %v", got, err)
	}
	other := want
	other.Role = "KarpenterNodeRole-blue"
	if err := a.EnsureInstanceProfile(ctx, other); Classify(err) != Permanent {
		t.Errorf("a profile must not change its role: %v", err)
	}
	missing := InstanceProfile{Name: "blue_2", Path: want.Path, Role: "nobody"}
	if err := a.EnsureInstanceProfile(ctx, missing); !IsNotFound(err) {
		t.Errorf("role that does not exist: %v", err)
	}
	under, err := a.InstanceProfiles(ctx, "/karpenter/us-west-2/blue/")
	if err != nil || len(under) != 1 {
		t.Errorf("a profile without role was left behind: %v %v", under, err)
	}
	for range 2 {
		if err := a.DeleteInstanceProfile(ctx, "blue_1"); err != nil {
			t.Error(err)
		}
	}
	if _, err := a.InstanceProfile(ctx, "blue_1"); !IsNotFound(err) {
		t.Error(err)
	}
}

func TestDiscovery(t *testing.T) {
	ctx, a := context.Background(), newAccount(t)
	c, err := a.DescribeCluster(ctx)
	if err != nil || c.CIDR != "10.100.0.0/16" || c.Version != "1.36" || c.Endpoint == "" || c.CA == "" {
		t.Errorf("%+v %v", c, err)
	}
	if _, err := a.SSMParameter(ctx, "/nope"); !IsNotFound(err) {
		t.Error(err)
	}
	subnets, err := a.DescribeSubnets(ctx, subnetTerms("blue"))
	if err != nil || len(subnets) < 3 || subnets[0].ZoneID == "" || subnets[0].FreeAddresses == 0 {
		t.Fatal(subnets, err)
	}
	a.control(t, http.MethodPut, "subnets/"+subnets[0].ID, map[string]int{"availableAddresses": 3})
	after, err := a.DescribeSubnets(ctx, subnetTerms("blue"))
	if err != nil || after[len(after)-1].ID != subnets[0].ID {
		t.Errorf("the fullest subnet is not last: %v %v", after, err)
	}
	both, err := a.DescribeSubnets(ctx, append(subnetTerms("nothing"), awsv1.SubnetSelectorTerm{ID: subnets[0].ID}, awsv1.SubnetSelectorTerm{ID: subnets[1].ID}))
	if err != nil || len(both) != 2 {
		t.Errorf("terms are ORed: %v %v", both, err)
	}
	groups, err := a.DescribeSecurityGroups(ctx, []awsv1.SecurityGroupSelectorTerm{{Tags: map[string]string{"karpenter.sh/discovery": "*"}}, {Name: "default"}})
	if err != nil || len(groups) != 3 {
		t.Errorf("%v %v", groups, err)
	}
	id, err := a.SSMParameter(ctx, imageParameter)
	if err != nil {
		t.Fatal(err)
	}
	images, err := a.DescribeImages(ctx, ImageQuery{IDs: []string{id, "ami-00000000000000000"}})
	if err != nil || len(images) != 1 || images[0].Architecture != "x86_64" || images[0].Created.IsZero() || images[0].DeprecatedAt.IsZero() {
		t.Errorf("%+v %v", images, err)
	}
	named, err := a.DescribeImages(ctx, ImageQuery{Name: "amazon-eks-node-al2023-x86_64-standard-1.36-*", Owners: []string{"self", "amazon"}})
	if err != nil || len(named) != 3 {
		t.Errorf("%d images by name: %v", len(named), err)
	}
}

// TestBootReports hold state, failed checks and the failures that a console shows; without the permission the
// console is left out.
func TestBootReports(t *testing.T) {
	ctx, a := context.Background(), newAccount(t)
	id := a.launch(t, "1").Instances[0].ID
	report := func() BootReport {
		t.Helper()
		r, err := a.BootReport(ctx, id)
		if err != nil {
			t.Fatal(err)
		}
		return r
	}
	a.sim.SetProgress(id, instance.Progress{Problem: "dial tcp: no such host"})
	if r := report(); r.State != "pending" || r.Console != "" {
		t.Errorf("pending: %+v", r)
	}
	a.now = a.now.Add(5 * time.Minute)
	want := "[    9.480112] cloud-init[1893]: kubelet: failed to run Kubelet: dial tcp: no such host"
	if r := report(); r.State != "running" || len(r.Checks) != 0 || r.Console != want {
		t.Errorf("running: %+v", r)
	}
	a.control(t, http.MethodPost, "instances/"+id+"/fail", nil)
	if r := report(); !slices.Equal(r.Checks, []string{"instance: reachability"}) && !slices.Equal(r.Checks, []string{"system: reachability", "instance: reachability"}) {
		t.Errorf("impaired: %+v", r)
	}
	id = "i-0123456789abcdef0"
	if r := report(); r.State != "" {
		t.Errorf("unknown: %+v", r)
	}
}

func TestFailureLinesOfAConsole(t *testing.T) {
	long := strings.Repeat("x", 300)
	for name, c := range map[string]struct{ console, want string }{
		"nothing":              {"", ""},
		"all is well":          {"booting\nready\n", ""},
		"the last three":       {"error 1\nerror 2\nok\nerror 3\r\nerror 4\n", "error 2 | error 3 | error 4"},
		"each once":            {"cannot join\ncannot join\n", "cannot join"},
		"no escapes":           {"\x1b[31mfailed\x1b[0m\tto\x00 run\n", "failed to  run"},
		"cut where it is long": {"error " + long, "error " + long[:114] + "..."},
	} {
		if got := failureLines(c.console); got != c.want {
			t.Errorf("%s: %q, want %q", name, got, c.want)
		}
	}
}
