package launch

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/credentials"
	awsec2 "github.com/aws/aws-sdk-go-v2/service/ec2"
	ec2types "github.com/aws/aws-sdk-go-v2/service/ec2/types"
	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	awsv1 "millwright/api/karpenteraws/v1"
	"millwright/deploy/iam"
	"millwright/planner/catalog"
	"millwright/planner/ledger"
	"millwright/services/internal/ec2"
	"millwright/services/lifecycle/launch/userdata"
	"millwright/services/lifecycle/nodeclass"
	"millwright/tools/ec2sim/boot"
	"millwright/tools/ec2sim/sim"
	"millwright/tools/ec2sim/simclient"
)

// account joins the real adapter, Builder and Reconciler to a simulated account.
type account struct {
	sim        *sim.Server
	cloud      *ec2.Client
	raw        *awsec2.Client
	builder    *Builder
	reconciler *nodeclass.Reconciler
	now        time.Time
}

func newAccount(t *testing.T) *account {
	t.Helper()
	a := &account{now: time.Date(2026, 4, 1, 0, 0, 0, 0, time.UTC)}
	a.sim = sim.New(sim.Config{ClusterName: "blue", Region: "eu-west-1", KubernetesVersion: "1.32", Now: func() time.Time { return a.now }, Settings: sim.DefaultSettings(), ClusterCA: []byte("ca")})
	enforcePolicy(t, a.sim)
	a.reach(t, "http://aws.simulated", a.sim.Transport())
	return a
}

// enforcePolicy has the account refuse the real adapter what the policies that users get do not allow.
func enforcePolicy(t *testing.T, server *sim.Server) {
	t.Helper()
	d, err := iam.Policy("lifecycle", iam.Account{Cluster: "blue", Region: "eu-west-1", Account: "111122223333"})
	if err != nil {
		t.Fatal(err)
	}
	data, err := d.JSON()
	if err != nil {
		t.Fatal(err)
	}
	if err := server.Enforce(map[string]json.RawMessage{"lifecycle": data}); err != nil {
		t.Fatal(err)
	}
}

// reach makes clients that find the account at a URL.
func (a *account) reach(t *testing.T, url string, transport http.RoundTripper) {
	t.Helper()
	sdk := aws.Config{
		Region: "eu-west-1", BaseEndpoint: aws.String(url), HTTPClient: &http.Client{Transport: transport},
		Credentials: credentials.NewStaticCredentialsProvider("lifecycle", "secret", ""),
	}
	var err error
	if a.cloud, err = ec2.New(context.Background(), ec2.Config{Cluster: "blue", AWS: &sdk}); err != nil {
		t.Fatal(err)
	}
	root := sdk.Copy()
	root.Credentials = credentials.NewStaticCredentialsProvider("root", "secret", "")
	a.raw = awsec2.NewFromConfig(root)
	now := func() time.Time { return a.now }
	cluster := NewClusterSource(ClusterConfig{
		Given: Cluster{Name: "blue"}, Describe: a.cloud.DescribeCluster, Now: now,
		DNS:     func(context.Context) (string, error) { return "10.100.0.10", nil },
		Version: func(context.Context) (string, error) { return "1.32", nil },
	})
	a.builder = New(Config{Cloud: a.cloud, Cluster: cluster.Get, Region: "eu-west-1", Now: now})
	a.reconciler = nodeclass.New(nodeclass.Config{
		Cloud: a.cloud, Cluster: "blue", Region: "eu-west-1", Version: cluster.Version, CIDR: cluster.CIDR, DeleteTemplates: a.builder.DeleteTemplates,
		SubnetsSeen: a.builder.SubnetsSeen, Now: now,
	})
}

// class reconciles a NodeClass of the family until it is ready.
func (a *account) class(t *testing.T, alias string, change ...func(*awsv1.EC2NodeClassSpec)) *awsv1.EC2NodeClass {
	t.Helper()
	discovery := map[string]string{sim.DiscoveryTag: "blue"}
	nc := &awsv1.EC2NodeClass{
		ObjectMeta: metav1.ObjectMeta{Name: "default", UID: "11111111-2222-3333-4444-555555555555", Generation: 1},
		Spec: awsv1.EC2NodeClassSpec{
			Role: a.sim.Defaults().Role, AMISelectorTerms: []awsv1.AMISelectorTerm{{Alias: alias}},
			SubnetSelectorTerms:        []awsv1.SubnetSelectorTerm{{Tags: discovery}},
			SecurityGroupSelectorTerms: []awsv1.SecurityGroupSelectorTerm{{Tags: discovery}},
		},
	}
	for _, f := range change {
		f(&nc.Spec)
	}
	resolved, _, err := a.reconciler.Reconcile(context.Background(), nc, nil)
	if err != nil {
		t.Fatal(err)
	}
	if err := nodeclass.Ready(resolved.Object); err != nil {
		t.Fatalf("not ready: %v %+v", err, resolved.Object.Status.Conditions)
	}
	return resolved.Object
}

// TestLaunchInSimulatedAccount goes the whole way for each family: resolve the class, build, record, decode,
// send, describe, boot.
func TestLaunchInSimulatedAccount(t *testing.T) {
	for alias, family := range map[string]string{"al2023@latest": boot.AL2023, "al2@latest": boot.AL2, "bottlerocket@latest": boot.Bottlerocket} {
		t.Run(alias, func(t *testing.T) {
			ctx, a := context.Background(), newAccount(t)
			nc := a.class(t, alias)
			in := input(nc, claim(capacityTypes("spot", "on-demand")), m5large, m6glarge, m5xlarge)
			built, err := a.builder.Build(ctx, in)
			if err != nil {
				t.Fatal(err)
			}
			record, err := EncodeRequest(requestOf(a.builder, built, "token-1"))
			if err != nil {
				t.Fatal(err)
			}
			var ids []string
			for range 2 { // the second time is what follows a crash
				request, err := DecodeRequest(record)
				if err != nil {
					t.Fatal(err)
				}
				result, err := a.cloud.CreateFleet(ctx, request)
				if err != nil || result.Failure() != nil {
					t.Fatalf("%v %v", err, result.Failure())
				}
				ids = append(ids, result.Instances[0].ID)
			}
			if ids[0] != ids[1] || len(a.sim.Instances()) != 1 {
				t.Fatalf("launched %v", ids)
			}
			a.checkInstance(t, nc, in, ids[0])
			for _, ref := range built.Templates {
				a.checkUserData(t, in, ref, family)
			}
		})
	}
}

// TestReservedLaunchInSimulatedAccount fills a capacity reservation of one and is told that it is full.
func TestReservedLaunchInSimulatedAccount(t *testing.T) {
	ctx, a := context.Background(), newAccount(t)
	control := &simclient.Client{URL: "http://aws.simulated", HTTP: &http.Client{Transport: a.sim.Transport()}}
	r, err := control.AddReservation(ctx, simclient.Reservation{InstanceType: "m5.large", Zone: "eu-west-1a", Count: 1, Tags: map[string]string{"team": "web"}})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := control.AddReservation(ctx, simclient.Reservation{InstanceType: "m5.large", Zone: "eu-west-1a", Count: 1}); err != nil {
		t.Fatal(err)
	}
	nc := a.class(t, "al2023@latest", func(s *awsv1.EC2NodeClassSpec) {
		s.CapacityReservationSelectorTerms = []awsv1.CapacityReservationSelectorTerm{{Tags: map[string]string{"team": "web"}}, {ID: "cr-0"}}
	})
	if d := cmp.Diff([]awsv1.CapacityReservation{{ID: r.ID, InstanceType: "m5.large", AvailabilityZone: "eu-west-1a", InstanceMatchCriteria: "targeted",
		OwnerID: "111122223333", ReservationType: "default", State: "active"}}, nc.Status.CapacityReservations); d != "" {
		t.Fatal(d)
	}
	launch := func(n int) (Input, ec2.FleetResult) {
		in := input(nc, claim(), m5xlarge, held(m5large, "eu-west-1a", r.ID))
		in.FreeReserved = map[string]int64{r.ID: 1}
		built, err := a.builder.Build(ctx, in)
		if err != nil {
			t.Fatal(err)
		}
		result, err := a.cloud.CreateFleet(ctx, requestOf(a.builder, built, fmt.Sprint("token-", n)))
		if err != nil {
			t.Fatal(err)
		}
		result.Reserve(built.Templates)
		return in, result
	}
	in, first := launch(1)
	if len(first.Instances) != 1 || first.Instances[0].CapacityType != "reserved" || first.Instances[0].ReservationID != r.ID {
		t.Fatalf("launched %+v", first)
	}
	_, second := launch(2)
	if f := second.Failure(); f == nil || f.Class != ec2.NoCapacity || len(f.Unavailable) != 1 || f.Unavailable[0].ReservationID != r.ID {
		t.Fatalf("the second failed with %+v", second.Failure())
	}
	a.now = a.now.Add(time.Minute)
	found, err := a.cloud.DescribeInstances(ctx, []string{first.Instances[0].ID})
	if err != nil || len(found) != 1 || found[0].CapacityType != "reserved" || found[0].ReservationID != r.ID {
		t.Fatalf("described as %+v, %v", found, err)
	}
	d := Details(nodeclass.Hasher{}, nc, in.Claim, in.Types[0], found[0])
	for k, want := range map[string]string{
		"karpenter.sh/capacity-type": "reserved", awsv1.LabelCapacityReservationID: r.ID, awsv1.LabelCapacityReservationType: "default",
		awsv1.LabelCapacityReservationInterruptible: "false", "topology.kubernetes.io/zone": "eu-west-1a", "node.kubernetes.io/instance-type": "m5.large",
	} {
		if d.Labels[k] != want {
			t.Errorf("label %s is %q, want %q", k, d.Labels[k], want)
		}
	}
}

// TestLaunchesIntoEachKindOfReservation: EC2 is told of the kind, and takes no other for it.
func TestLaunchesIntoEachKindOfReservation(t *testing.T) {
	ctx, a := context.Background(), newAccount(t)
	control := &simclient.Client{URL: "http://aws.simulated", HTTP: &http.Client{Transport: a.sim.Transport()}}
	end := a.now.Add(24 * time.Hour)
	for name, c := range map[string]struct {
		reservation simclient.Reservation
		kind        kind
		as          func(kind) kind
		target      ec2types.DefaultTargetCapacityType
	}{
		"capacity block": {simclient.Reservation{ReservationType: "capacity-block", EndTime: &end}, p4d24xlarge, inBlocks, ec2types.DefaultTargetCapacityTypeCapacityBlock},
		"interruptible":  {simclient.Reservation{Interruptible: true}, m5large, interruptible, ec2types.DefaultTargetCapacityTypeReservedCapacity},
	} {
		t.Run(name, func(t *testing.T) {
			c.reservation.InstanceType, c.reservation.Zone, c.reservation.Count, c.reservation.Tags = c.kind.name, "eu-west-1a", 1, map[string]string{"team": name}
			r, err := control.AddReservation(ctx, c.reservation)
			if err != nil {
				t.Fatal(err)
			}
			nc := a.class(t, "al2023@latest", func(s *awsv1.EC2NodeClassSpec) {
				s.CapacityReservationSelectorTerms = []awsv1.CapacityReservationSelectorTerm{{Tags: map[string]string{"team": name}}}
			})
			in := input(nc, claim(), m5xlarge, c.as(held(c.kind, "eu-west-1a", r.ID)))
			in.FreeReserved = map[string]int64{r.ID: 1}
			built, err := a.builder.Build(ctx, in)
			if err != nil {
				t.Fatal(err)
			}
			request := requestOf(a.builder, built, "token-"+name)
			if got := request.TargetCapacitySpecification.DefaultTargetCapacityType; got != c.target {
				t.Errorf("asks for %s, want %s", got, c.target)
			}
			result, err := a.cloud.CreateFleet(ctx, request)
			if err != nil {
				t.Fatal(err)
			}
			result.Reserve(built.Templates)
			if len(result.Instances) != 1 || result.Instances[0].CapacityType != "reserved" || result.Instances[0].ReservationID != r.ID {
				t.Fatalf("launched %+v", result)
			}
			plain := *request
			plain.ClientToken, plain.ReservedCapacityOptions = aws.String("plain-"+name), nil
			plain.TargetCapacitySpecification = &ec2types.TargetCapacitySpecificationRequest{
				DefaultTargetCapacityType: ec2types.DefaultTargetCapacityTypeOnDemand, TotalTargetCapacity: aws.Int32(1),
			}
			if refused, err := a.cloud.CreateFleet(ctx, &plain); err == nil && len(refused.Instances) > 0 {
				t.Errorf("launched as if it were a plain reservation: %+v", refused)
			}
		})
	}
}

// checkInstance compares what runs with what the details say of it.
func (a *account) checkInstance(t *testing.T, nc *awsv1.EC2NodeClass, in Input, id string) {
	t.Helper()
	ctx := context.Background()
	a.now = a.now.Add(time.Minute)
	found, err := a.cloud.DescribeInstancesByTags(ctx, map[string]string{awsv1.TagLaunch: testTag})
	if err != nil || len(found) != 1 || found[0].ID != id {
		t.Fatalf("%v %v", found, err)
	}
	i := found[0]
	for k, want := range map[string]string{
		"karpenter.sh/nodeclaim": "general-abc", "karpenter.sh/nodepool": "general", "kubernetes.io/cluster/blue": "owned",
		"eks:eks-cluster-name": "blue", "karpenter.k8s.aws/ec2nodeclass": "default", "millwright.sh/launch": "log/claim-uid/1",
	} {
		if i.Tags[k] != want {
			t.Errorf("tag %s is %q", k, i.Tags[k])
		}
	}
	var kind *catalog.InstanceType
	for _, ty := range in.Types {
		if ty.Name == i.InstanceType {
			kind = ty
		}
	}
	d := Details(nodeclass.Hasher{}, nc, in.Claim, kind, i)
	if d.Labels["karpenter.sh/capacity-type"] != "spot" || d.ProviderID != fmt.Sprintf("aws:///%s/%s", i.Zone, id) || d.Labels["topology.k8s.aws/zone-id"] == "" || len(d.Capacity) == 0 {
		t.Errorf("%+v", d)
	}
}

// checkUserData reads a template's user data as an instance would.
func (a *account) checkUserData(t *testing.T, in Input, ref ledger.LaunchTemplateRef, family string) {
	t.Helper()
	out, err := a.raw.DescribeLaunchTemplateVersions(context.Background(), &awsec2.DescribeLaunchTemplateVersionsInput{LaunchTemplateId: aws.String(ref.ID), Versions: []string{ref.Version}})
	if err != nil || len(out.LaunchTemplateVersions) == 0 {
		t.Fatal(out, err)
	}
	for _, v := range out.LaunchTemplateVersions {
		b, err := boot.Decode(aws.ToString(v.LaunchTemplateData.UserData))
		if err != nil {
			t.Fatal(err)
		}
		if b.Family != family || b.ClusterName != "blue" || b.Endpoint == "" || b.CA == "" {
			t.Errorf("%+v", b)
		}
		if diff := cmp.Diff(userdata.NodeLabels(family, in.Claim.Labels, "spot"), b.Kubelet.Labels); diff != "" {
			t.Error(diff)
		}
		taints := map[string]bool{}
		for _, taint := range b.Kubelet.Taints {
			taints[taint.ToString()] = true
		}
		if diff := cmp.Diff(map[string]bool{"cni:NoSchedule": true, "karpenter.sh/unregistered:NoExecute": true}, taints); diff != "" {
			t.Error(diff)
		}
		if b.Kubelet.MaxPods != 29 && b.Kubelet.MaxPods != 58 {
			t.Errorf("max pods %d", b.Kubelet.MaxPods)
		}
	}
}

func TestClassIsCleanedUpInSimulatedAccount(t *testing.T) {
	ctx, a := context.Background(), newAccount(t)
	nc := a.class(t, "al2023@latest")
	if _, err := a.builder.Build(ctx, input(nc, claim(capacityTypes("spot")), m5large)); err != nil {
		t.Fatal(err)
	}
	nc.DeletionTimestamp = &metav1.Time{Time: a.now}
	change, _, err := a.reconciler.Reconcile(ctx, nc, nil)
	if err != nil || len(change.Object.Finalizers) != 0 {
		t.Fatalf("%v %v", err, change.Object.Finalizers)
	}
	templates, err := a.cloud.DescribeLaunchTemplates(ctx, map[string]string{awsv1.TagNodeClass: "*"})
	if err != nil || len(templates) != 0 {
		t.Errorf("templates left: %v %v", templates, err)
	}
	if _, err := a.cloud.InstanceProfile(ctx, nc.Status.InstanceProfile); !ec2.IsNotFound(err) {
		t.Errorf("profile %s is left: %v", nc.Status.InstanceProfile, err)
	}
}

// TestWhatTheClassAsksOfTheNetworkIsLaunched: EC2 takes the interfaces, prefixes and timeouts of a class, and
// shows the instance with them.
func TestWhatTheClassAsksOfTheNetworkIsLaunched(t *testing.T) {
	ctx, a := context.Background(), newAccount(t)
	nc := a.class(t, "al2023@latest", func(s *awsv1.EC2NodeClassSpec) {
		s.NetworkInterfaces = []awsv1.NetworkInterface{
			{InterfaceType: awsv1.InterfaceTypeInterface}, {DeviceIndex: 1, InterfaceType: awsv1.InterfaceTypeEFAOnly},
			{NetworkCardIndex: 1, InterfaceType: awsv1.InterfaceTypeEFAOnly}, {NetworkCardIndex: 2, DeviceIndex: 1, InterfaceType: awsv1.InterfaceTypeInterface},
		}
		s.IPPrefixCount, s.ConnectionTracking = ptr[int32](3), &awsv1.ConnectionTracking{UDPStreamTimeout: ptr[int32](90)}
	})
	p4d := kind{name: "p4d.24xlarge", price: 32000, cpu: 96, pods: 737, extra: map[string]int64{"nvidia.com/gpu": 8, resourceEFA: 2}}
	free := func() int64 {
		found, err := a.cloud.DescribeSubnets(ctx, nc.Spec.SubnetSelectorTerms)
		if err != nil {
			t.Fatal(err)
		}
		n := int64(0)
		for _, s := range found {
			n += int64(s.FreeAddresses)
		}
		return n
	}
	before := free()
	in := input(nc, claim(capacityTypes("on-demand")), p4d)
	i := a.launchOne(t, in)
	if i.EFAs != 2 || before-free() != 2+3*16 {
		t.Errorf("%d EFA interfaces, %d addresses taken", i.EFAs, before-free())
	}
	i.EFAs = 0 // as long as EC2 does not show them
	if d := Details(nodeclass.Hasher{}, nc, in.Claim, in.Types[0], i); d.CapacityVector.Get(resourceEFA) != 2 {
		t.Errorf("capacity %v", d.CapacityVector)
	}
}

// TestNestedVirtualizationIsLaunched on a type that has it; EC2 refuses it on others.
func TestNestedVirtualizationIsLaunched(t *testing.T) {
	a := newAccount(t)
	nc := a.class(t, "al2023@latest", func(s *awsv1.EC2NodeClassSpec) {
		s.CPUOptions = &awsv1.CPUOptions{NestedVirtualization: ptr("enabled")}
	})
	i := a.launchOne(t, input(nc, claim(capacityTypes("on-demand")), m5large, kind{name: "m8i.large", price: 110, cpu: 2, pods: 29}))
	if i.InstanceType != "m8i.large" {
		t.Errorf("launched %s", i.InstanceType)
	}
}

// launchOne builds, sends and describes a launch that must give one instance.
func (a *account) launchOne(t *testing.T, in Input) ec2.Instance {
	t.Helper()
	ctx := context.Background()
	built, err := a.builder.Build(ctx, in)
	if err != nil {
		t.Fatal(err)
	}
	result, err := a.cloud.CreateFleet(ctx, requestOf(a.builder, built, "token-1"))
	if err != nil {
		t.Fatal(err)
	}
	if len(result.Instances) != 1 {
		t.Fatalf("launched %+v: %v", result, result.Failure())
	}
	a.now = a.now.Add(time.Minute)
	found, err := a.cloud.DescribeInstances(ctx, []string{result.Instances[0].ID})
	if err != nil || len(found) != 1 {
		t.Fatalf("described %+v, %v", found, err)
	}
	return found[0]
}
