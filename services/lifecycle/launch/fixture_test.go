package launch

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"testing"
	"time"

	awsec2 "github.com/aws/aws-sdk-go-v2/service/ec2"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	karpv1 "millwright/api/karpenter/v1"
	awsv1 "millwright/api/karpenteraws/v1"
	"millwright/events"
	"millwright/planner/catalog"
	"millwright/planner/ledger"
	"millwright/services/internal/ec2"
)

var start = time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)

func ptr[T any](v T) *T { return &v }

// fakeTemplates keeps launch templates in memory.
type fakeTemplates struct {
	made    map[string]ec2.LaunchTemplate // by id
	ids     map[string]string             // by name
	created map[string]time.Time
	now     func() time.Time
	ensured int
	err     error
	// refused are the errors of deleting templates, by id.
	refused map[string]error
}

func (f *fakeTemplates) EnsureLaunchTemplate(_ context.Context, t ec2.LaunchTemplate) (ledger.LaunchTemplateRef, error) {
	f.ensured++
	if f.err != nil {
		return ledger.LaunchTemplateRef{}, f.err
	}
	id, ok := f.ids[t.Name]
	if !ok {
		id = fmt.Sprintf("lt-%d", len(f.ids)+1)
		f.ids[t.Name], f.made[id], f.created[id] = id, t, f.now()
	}
	return ledger.LaunchTemplateRef{ID: id, Version: "1"}, nil
}

func (f *fakeTemplates) DescribeLaunchTemplates(_ context.Context, tags map[string]string) ([]ec2.TemplateSummary, error) {
	var out []ec2.TemplateSummary
	for id, t := range f.made {
		match := true
		for k, v := range tags {
			match = match && (v == "*" && t.Tags[k] != "" || t.Tags[k] == v)
		}
		if match {
			out = append(out, ec2.TemplateSummary{ID: id, Name: t.Name, Tags: t.Tags, Created: f.created[id]})
		}
	}
	slices.SortFunc(out, func(a, b ec2.TemplateSummary) int { return cmp.Compare(a.ID, b.ID) })
	return out, nil
}

func (f *fakeTemplates) DeleteLaunchTemplate(_ context.Context, id string) error {
	if err := f.refused[id]; err != nil {
		return err
	}
	delete(f.ids, f.made[id].Name)
	delete(f.made, id)
	return nil
}

// bench is a Builder with what it talks to.
type bench struct {
	*Builder
	templates *fakeTemplates
	now       time.Time
	cluster   Cluster
}

func newBench(t *testing.T) *bench {
	t.Helper()
	b := &bench{now: start, cluster: Cluster{
		Name: "blue", Endpoint: "https://api.blue.example", CABundle: "Y2E=", CIDR: "10.100.0.0/16", DNS: "10.100.0.10", Version: "1.36",
	}}
	b.templates = &fakeTemplates{made: map[string]ec2.LaunchTemplate{}, ids: map[string]string{}, created: map[string]time.Time{}, now: func() time.Time { return b.now }}
	b.Builder = New(Config{
		Cloud: b.templates, Region: "eu-west-1", Now: func() time.Time { return b.now },
		Cluster: func(context.Context) (Cluster, error) { return b.cluster, nil },
	})
	return b
}

// kind is a compact instance type: price in milli-USD for on-demand; spot costs a third.
type kind struct {
	name  string
	price int64
	cpu   int64
	pods  int64
	arch  string
	extra map[string]int64
	// reserved capacity, by zone.
	reserved map[string][]string
	// reservationType and interruptible are of all of them.
	reservationType string
	interruptible   bool
}

// inBlocks makes the reservations of a kind capacity blocks.
func inBlocks(k kind) kind {
	k.reservationType = awsv1.ReservationTypeCapacityBlock
	return k
}

// interruptible makes the reservations of a kind such as their owner may take back.
func interruptible(k kind) kind {
	k.interruptible = true
	return k
}

// held is a kind with capacity reservations in a zone.
func held(k kind, zone string, ids ...string) kind {
	k.reserved = map[string][]string{zone: ids}
	return k
}

func types(kinds ...kind) []*catalog.InstanceType {
	c := &events.Catalog{NodeClass: "default"}
	prices := catalog.Prices{}
	for _, k := range kinds {
		t := events.CatalogInstanceType{
			Name: k.name,
			Requirements: map[string][]string{
				corev1.LabelArchStable: {arch(k)}, corev1.LabelOSStable: {"linux"}, awsv1.LabelInstanceFamily: {k.name[:2]},
				awsv1.LabelInstanceTenancy: {"dedicated", "default"}, awsv1.LabelInstanceCPU: {fmt.Sprint(k.cpu)},
				awsv1.LabelInstanceGPUCount: {}, awsv1.LabelInstanceAcceleratorCount: {},
			},
			Capacity: map[string]int64{"cpu": k.cpu * 1000, "memory": k.cpu << 32, "pods": k.pods},
			Overhead: map[string]int64{"cpu": 100},
		}
		for name, n := range k.extra {
			t.Capacity[name] = n
			if name == "nvidia.com/gpu" {
				t.Requirements[awsv1.LabelInstanceGPUCount] = []string{fmt.Sprint(n)}
			}
		}
		for i, zone := range []string{"eu-west-1a", "eu-west-1b", "eu-west-1c"} {
			for _, ct := range []string{"on-demand", "spot"} {
				t.Offerings = append(t.Offerings, events.CatalogOffering{Zone: zone, ZoneID: fmt.Sprintf("euw1-az%d", i+1), CapacityType: ct, Available: true})
			}
			for _, id := range k.reserved[zone] {
				many := int64(9)
				t.Offerings = append(t.Offerings, events.CatalogOffering{Zone: zone, ZoneID: fmt.Sprintf("euw1-az%d", i+1), CapacityType: "reserved", Available: true,
					Reservation: &events.CatalogReservation{ID: id, Type: cmp.Or(k.reservationType, "default"), Interruptible: k.interruptible, Free: &many}})
			}
			prices[catalog.PriceKey{InstanceType: k.name, CapacityType: "spot", Zone: zone}] = k.price*1000/3 + int64(i)
		}
		prices[catalog.PriceKey{InstanceType: k.name, CapacityType: "on-demand"}] = k.price * 1000
		c.InstanceTypes = append(c.InstanceTypes, t)
	}
	return catalog.New(c, prices).Types
}

func arch(k kind) string {
	if k.arch == "" {
		return "amd64"
	}
	return k.arch
}

var (
	m5large     = kind{name: "m5.large", price: 96, cpu: 2, pods: 29}
	c5large     = kind{name: "c5.large", price: 85, cpu: 2, pods: 29}
	m5xlarge    = kind{name: "m5.xlarge", price: 192, cpu: 4, pods: 58}
	m6glarge    = kind{name: "m6g.large", price: 77, cpu: 2, pods: 29, arch: "arm64"}
	g5xlarge    = kind{name: "g5.xlarge", price: 1006, cpu: 4, pods: 58, extra: map[string]int64{"nvidia.com/gpu": 1}}
	p4d24xlarge = kind{name: "p4d.24xlarge", price: 21958, cpu: 96, pods: 737, extra: map[string]int64{"nvidia.com/gpu": 8}}
	m5metal     = kind{name: "m5.metal", price: 4608, cpu: 96, pods: 737}
)

// readyClass is a NodeClass as its reconciliation leaves it.
func readyClass(family string) *awsv1.EC2NodeClass {
	standard := []corev1.NodeSelectorRequirement{
		{Key: awsv1.LabelInstanceGPUCount, Operator: corev1.NodeSelectorOpDoesNotExist},
	}
	image := func(id, arch string) awsv1.AMI {
		return awsv1.AMI{ID: id, Name: family + "-" + arch, Requirements: append([]corev1.NodeSelectorRequirement{
			{Key: corev1.LabelArchStable, Operator: corev1.NodeSelectorOpIn, Values: []string{arch}}}, standard...)}
	}
	gpu := awsv1.AMI{ID: "ami-gpu", Requirements: []corev1.NodeSelectorRequirement{
		{Key: corev1.LabelArchStable, Operator: corev1.NodeSelectorOpIn, Values: []string{"amd64"}},
		{Key: awsv1.LabelInstanceGPUCount, Operator: corev1.NodeSelectorOpExists},
	}}
	return &awsv1.EC2NodeClass{
		ObjectMeta: metav1.ObjectMeta{Name: "default", UID: "class-uid", Generation: 2},
		Spec: awsv1.EC2NodeClassSpec{
			AMIFamily: ptr(family), AMISelectorTerms: []awsv1.AMISelectorTerm{{Tags: map[string]string{"a": "b"}}},
			Role: "node-role", Tags: map[string]string{"team": "web", "Name": "mine"},
		},
		Status: awsv1.EC2NodeClassStatus{
			Subnets: []awsv1.Subnet{
				{ID: "subnet-b2", Zone: "eu-west-1b", ZoneID: "euw1-az2"}, {ID: "subnet-b1", Zone: "eu-west-1b", ZoneID: "euw1-az2"},
				{ID: "subnet-a", Zone: "eu-west-1a", ZoneID: "euw1-az1"},
			},
			SecurityGroups:  []awsv1.SecurityGroup{{ID: "sg-1"}, {ID: "sg-2"}},
			AMIs:            []awsv1.AMI{image("ami-arm", "arm64"), image("ami-x86", "amd64"), gpu},
			InstanceProfile: "blue_1",
			Conditions:      []metav1.Condition{{Type: "Ready", Status: metav1.ConditionTrue, ObservedGeneration: 2}},
		},
	}
}

// claim asks for 1 CPU with the given requirements: key, then values.
func claim(requirements ...[]string) *karpv1.NodeClaim {
	c := &karpv1.NodeClaim{
		ObjectMeta: metav1.ObjectMeta{Name: "general-abc", UID: "claim-uid", Labels: map[string]string{"karpenter.sh/nodepool": "general", "team": "web"}},
		Spec: karpv1.NodeClaimSpec{
			Resources:     karpv1.ResourceRequirements{Requests: corev1.ResourceList{"cpu": resource.MustParse("1"), "pods": resource.MustParse("3")}},
			StartupTaints: []corev1.Taint{{Key: "cni", Effect: corev1.TaintEffectNoSchedule}},
		},
	}
	for _, r := range requirements {
		c.Spec.Requirements = append(c.Spec.Requirements, karpv1.NodeSelectorRequirementWithMinValues{Key: r[0], Operator: corev1.NodeSelectorOpIn, Values: r[1:]})
	}
	return c
}

func input(nc *awsv1.EC2NodeClass, c *karpv1.NodeClaim, kinds ...kind) Input {
	return Input{Claim: c, NodeClass: nc, Types: types(kinds...)}
}

// testTag is the launch tag of what requestOf makes.
const testTag = "log/claim-uid/1"

// requestOf is the request for the one claim that something was built for.
func requestOf(b interface {
	Request(built Built, o Order) *awsec2.CreateFleetInput
}, built Built, token string) *awsec2.CreateFleetInput {
	return b.Request(built, Order{Claims: []string{built.in.Claim.Name}, Token: token, LaunchTag: testTag})
}

func capacityTypes(values ...string) []string {
	return append([]string{karpv1.CapacityTypeLabelKey}, values...)
}
