package nodeclass

import (
	"context"
	"errors"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/aws/smithy-go"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	awsv1 "millwright/api/karpenteraws/v1"
	"millwright/services/internal/ec2"
)

var start = time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)

// fakeCloud answers from its fields and counts calls. fail makes calls of that name return the error.
type fakeCloud struct {
	subnets      []ec2.Subnet
	groups       []ec2.SecurityGroup
	images       []ec2.Image
	reservations []ec2.CapacityReservation
	group        *ec2.PlacementGroup
	parameters   map[string]string
	profiles     map[string]ec2.InstanceProfile
	roles        []string
	fail         map[string]error
	// refused are the errors of deleting profiles, by name.
	refused map[string]error
	calls   map[string]int
}

func notFound(code string) error {
	return &ec2.CallError{Action: "x", Err: &smithy.GenericAPIError{Code: code, Message: "nothing there"}}
}

func (f *fakeCloud) count(name string) error {
	f.calls[name]++
	return f.fail[name]
}

func (f *fakeCloud) DescribeSubnets(context.Context, []awsv1.SubnetSelectorTerm) ([]ec2.Subnet, error) {
	return f.subnets, f.count("subnets")
}

func (f *fakeCloud) DescribeSecurityGroups(context.Context, []awsv1.SecurityGroupSelectorTerm) ([]ec2.SecurityGroup, error) {
	return f.groups, f.count("groups")
}

func (f *fakeCloud) DescribeCapacityReservations(context.Context, []awsv1.CapacityReservationSelectorTerm) ([]ec2.CapacityReservation, error) {
	return f.reservations, f.count("reservations")
}

func (f *fakeCloud) DescribePlacementGroup(context.Context, awsv1.PlacementGroupSelector) (*ec2.PlacementGroup, error) {
	return f.group, f.count("placement group")
}

func (f *fakeCloud) DescribeImages(_ context.Context, q ec2.ImageQuery) ([]ec2.Image, error) {
	if err := f.count("images"); err != nil {
		return nil, err
	}
	var out []ec2.Image
	for _, i := range f.images {
		if slices.Contains(q.IDs, i.ID) || q.Name != "" && strings.HasPrefix(i.Name, strings.TrimSuffix(q.Name, "*")) || len(q.Tags) > 0 {
			out = append(out, i)
		}
	}
	return out, nil
}

func (f *fakeCloud) SSMParameter(_ context.Context, name string) (string, error) {
	if err := f.count("ssm"); err != nil {
		return "", err
	}
	if v, ok := f.parameters[name]; ok {
		return v, nil
	}
	return "", notFound("ParameterNotFound")
}

func (f *fakeCloud) InstanceProfile(_ context.Context, name string) (ec2.InstanceProfile, error) {
	if err := f.count("profile"); err != nil {
		return ec2.InstanceProfile{}, err
	}
	if p, ok := f.profiles[name]; ok {
		return p, nil
	}
	return ec2.InstanceProfile{}, notFound("NoSuchEntity")
}

func (f *fakeCloud) InstanceProfiles(_ context.Context, path string) ([]ec2.InstanceProfile, error) {
	var out []ec2.InstanceProfile
	for _, p := range f.profiles {
		if strings.HasPrefix(p.Path, path) {
			out = append(out, p)
		}
	}
	slices.SortFunc(out, func(a, b ec2.InstanceProfile) int { return strings.Compare(a.Name, b.Name) })
	return out, f.count("profiles")
}

func (f *fakeCloud) EnsureInstanceProfile(_ context.Context, want ec2.InstanceProfile) error {
	if err := f.count("ensure"); err != nil {
		return err
	}
	if !slices.Contains(f.roles, want.Role) {
		return notFound("NoSuchEntity")
	}
	f.profiles[want.Name] = want
	return nil
}

func (f *fakeCloud) DeleteInstanceProfile(_ context.Context, name string) error {
	if err := f.refused[name]; err != nil {
		return err
	}
	delete(f.profiles, name)
	return f.count("deleteprofile")
}

// world is a Reconciler with everything it talks to.
type world struct {
	*fakeCloud
	*Reconciler
	now              time.Time
	version, cidr    string
	versionError     error
	deletedTemplates []string
}

const al2023Path = "/aws/service/eks/optimized-ami/1.32/amazon-linux-2023/"

func newWorld(t *testing.T) *world {
	t.Helper()
	w := &world{now: start, version: "1.32", cidr: "10.100.0.0/16", fakeCloud: &fakeCloud{
		subnets: []ec2.Subnet{{ID: "subnet-b", Zone: "eu-west-1b", ZoneID: "euw1-az2", FreeAddresses: 90}, {ID: "subnet-a", Zone: "eu-west-1a", ZoneID: "euw1-az1", FreeAddresses: 20}},
		groups:  []ec2.SecurityGroup{{ID: "sg-1", Name: "nodes"}},
		images: []ec2.Image{
			{ID: "ami-x86", Name: "al2023-x86", Architecture: "x86_64", Created: start.Add(-48 * time.Hour)},
			{ID: "ami-arm", Name: "al2023-arm", Architecture: "arm64", Created: start.Add(-48 * time.Hour)},
			{ID: "ami-gpu", Name: "al2023-gpu", Architecture: "x86_64", Created: start.Add(-24 * time.Hour)},
		},
		parameters: map[string]string{
			al2023Path + "x86_64/standard/recommended/image_id": "ami-x86",
			al2023Path + "arm64/standard/recommended/image_id":  "ami-arm",
			al2023Path + "x86_64/nvidia/recommended/image_id":   "ami-gpu",
		},
		profiles: map[string]ec2.InstanceProfile{}, roles: []string{"node-role"}, fail: map[string]error{}, refused: map[string]error{}, calls: map[string]int{},
	}}
	w.Reconciler = New(Config{
		Cloud: w.fakeCloud, Cluster: "blue", Region: "eu-west-1", Now: func() time.Time { return w.now },
		Version: func(context.Context) (string, error) { return w.version, w.versionError },
		CIDR: func(context.Context) (string, error) {
			if w.cidr == "" {
				return "", errors.New("no CIDR")
			}
			return w.cidr, nil
		},
		DeleteTemplates: func(_ context.Context, name string) error {
			w.deletedTemplates = append(w.deletedTemplates, name)
			return nil
		},
	})
	return w
}

// class is a sound EC2NodeClass.
func class() *awsv1.EC2NodeClass {
	return &awsv1.EC2NodeClass{
		ObjectMeta: metav1.ObjectMeta{Name: "default", UID: "11111111-2222", Generation: 3, CreationTimestamp: metav1.NewTime(start.Add(-time.Hour))},
		Spec: awsv1.EC2NodeClassSpec{
			Role:                       "node-role",
			AMISelectorTerms:           []awsv1.AMISelectorTerm{{Alias: "al2023@latest"}},
			SubnetSelectorTerms:        []awsv1.SubnetSelectorTerm{{Tags: map[string]string{"karpenter.sh/discovery": "blue"}}},
			SecurityGroupSelectorTerms: []awsv1.SecurityGroupSelectorTerm{{Tags: map[string]string{"karpenter.sh/discovery": "blue"}}},
		},
	}
}
