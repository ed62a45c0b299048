package sim_test

import (
	"context"
	"encoding/base64"
	"errors"
	"net/http"
	"net/http/httptest"
	"sync"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/credentials"
	"github.com/aws/aws-sdk-go-v2/service/ec2"
	ec2types "github.com/aws/aws-sdk-go-v2/service/ec2/types"
	"github.com/aws/smithy-go"

	"millwright/services/transport"
	"millwright/tools/ec2sim/sim"
	"millwright/tools/ec2sim/simclient"
)

// clock is a clock that only sleeping and the test move.
type clock struct {
	mu  sync.Mutex
	now time.Time
}

func (c *clock) Now() time.Time {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.now
}

func (c *clock) Advance(d time.Duration) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.now = c.now.Add(d)
}

func (c *clock) Sleep(ctx context.Context, d time.Duration) error {
	c.Advance(d)
	return ctx.Err()
}

// world is a simulator behind a real socket, with SDK clients, the control client and its clock.
type world struct {
	t       *testing.T
	server  *sim.Server
	clock   *clock
	aws     aws.Config
	ec2     *ec2.Client
	control *simclient.Client
}

func newWorld(t *testing.T, adjust ...func(*sim.Config)) *world {
	t.Helper()
	c := &clock{now: time.Date(2026, 4, 1, 12, 0, 0, 0, time.UTC)}
	cfg := sim.Config{Seed: 1, Now: c.Now, Sleep: c.Sleep}
	for _, f := range adjust {
		f(&cfg)
	}
	server := sim.New(cfg)
	return serve(t, server, c)
}

func serve(t *testing.T, server *sim.Server, c *clock) *world {
	h := httptest.NewServer(server)
	t.Cleanup(h.Close)
	cfg := aws.Config{
		Region: server.Region().Name, BaseEndpoint: aws.String(h.URL), HTTPClient: transport.PlainBodies(h.Client()),
		Credentials:      credentials.NewStaticCredentialsProvider("AKID", "secret", ""),
		RetryMaxAttempts: 1,
	}
	control := simclient.New(h.URL)
	return &world{t: t, server: server, clock: c, aws: cfg, ec2: ec2.NewFromConfig(cfg), control: control}
}

func (w *world) must(err error) {
	w.t.Helper()
	if err != nil {
		w.t.Fatal(err)
	}
}

// wantCode checks an AWS error's code.
func wantCode(t *testing.T, err error, code string) {
	t.Helper()
	var api smithy.APIError
	if !errors.As(err, &api) || api.ErrorCode() != code {
		t.Fatalf("got error %v, want code %s", err, code)
	}
}

func ctxb() context.Context { return context.Background() }

// image returns the recommended AL2023 image.
func (w *world) image(arch string) string {
	w.t.Helper()
	return recommended(w, arch)
}

// template makes a launch template named name and returns its id.
func (w *world) template(name string) string {
	w.t.Helper()
	out, err := w.ec2.CreateLaunchTemplate(ctxb(), &ec2.CreateLaunchTemplateInput{
		LaunchTemplateName: aws.String(name),
		LaunchTemplateData: &ec2types.RequestLaunchTemplateData{
			ImageId:            aws.String(w.image("x86_64")),
			UserData:           aws.String(base64.StdEncoding.EncodeToString([]byte("hello"))),
			IamInstanceProfile: &ec2types.LaunchTemplateIamInstanceProfileSpecificationRequest{Name: aws.String("KarpenterNodeInstanceProfile-millwright")},
			TagSpecifications: []ec2types.LaunchTemplateTagSpecificationRequest{{ResourceType: ec2types.ResourceTypeNetworkInterface,
				Tags: []ec2types.Tag{{Key: aws.String("part"), Value: aws.String("nic")}}}},
		},
		TagSpecifications: []ec2types.TagSpecification{{ResourceType: ec2types.ResourceTypeLaunchTemplate,
			Tags: []ec2types.Tag{{Key: aws.String("karpenter.k8s.aws/cluster"), Value: aws.String("millwright")}}}},
	})
	w.must(err)
	return aws.ToString(out.LaunchTemplate.LaunchTemplateId)
}

// fleetInput asks for one instance of any of the types in any of the zones.
func (w *world) fleetInput(template string, zones []string, types ...string) *ec2.CreateFleetInput {
	d := w.server.Defaults()
	var overrides []ec2types.FleetLaunchTemplateOverridesRequest
	for _, it := range types {
		for _, zone := range zones {
			overrides = append(overrides, ec2types.FleetLaunchTemplateOverridesRequest{InstanceType: ec2types.InstanceType(it),
				SubnetId: aws.String(d.Subnets[zone]), AvailabilityZone: aws.String(zone)})
		}
	}
	return &ec2.CreateFleetInput{
		Type: ec2types.FleetTypeInstant, ClientToken: aws.String("token-1"),
		LaunchTemplateConfigs: []ec2types.FleetLaunchTemplateConfigRequest{{
			LaunchTemplateSpecification: &ec2types.FleetLaunchTemplateSpecificationRequest{LaunchTemplateName: aws.String(template), Version: aws.String("$Latest")},
			Overrides:                   overrides}},
		TargetCapacitySpecification: &ec2types.TargetCapacitySpecificationRequest{TotalTargetCapacity: aws.Int32(1),
			DefaultTargetCapacityType: ec2types.DefaultTargetCapacityTypeOnDemand},
		OnDemandOptions: &ec2types.OnDemandOptionsRequest{AllocationStrategy: ec2types.FleetOnDemandAllocationStrategyLowestPrice},
		TagSpecifications: []ec2types.TagSpecification{
			{ResourceType: ec2types.ResourceTypeInstance, Tags: []ec2types.Tag{{Key: aws.String("karpenter.sh/nodepool"), Value: aws.String("default")}}},
			{ResourceType: ec2types.ResourceTypeFleet, Tags: []ec2types.Tag{{Key: aws.String("karpenter.sh/nodepool"), Value: aws.String("default")}}},
		},
	}
}

// launch creates a fleet that must succeed, and returns the id of the first instance.
func (w *world) launch(in *ec2.CreateFleetInput) string {
	w.t.Helper()
	out, err := w.ec2.CreateFleet(ctxb(), in)
	w.must(err)
	if len(out.Instances) == 0 || len(out.Instances[0].InstanceIds) == 0 {
		w.t.Fatalf("nothing launched: %+v", out.Errors)
	}
	return out.Instances[0].InstanceIds[0]
}

func (w *world) state(id string) string {
	w.t.Helper()
	out, err := w.ec2.DescribeInstances(ctxb(), &ec2.DescribeInstancesInput{InstanceIds: []string{id}})
	w.must(err)
	return string(out.Reservations[0].Instances[0].State.Name)
}

var a = []string{"us-west-2a"}

var _ http.Handler = (*sim.Server)(nil)
