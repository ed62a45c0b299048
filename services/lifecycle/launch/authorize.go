package launch

import (
	"context"
	"fmt"
	"slices"

	"github.com/aws/aws-sdk-go-v2/aws"
	awsec2 "github.com/aws/aws-sdk-go-v2/service/ec2"
	ec2types "github.com/aws/aws-sdk-go-v2/service/ec2/types"
	corev1 "k8s.io/api/core/v1"

	karpv1 "millwright/api/karpenter/v1"
	awsv1 "millwright/api/karpenteraws/v1"
	"millwright/services/internal/ec2"
	"millwright/services/lifecycle/nodeclass"
)

// DryRunner asks EC2 whether a call would be allowed; class DryRunOK says yes. ec2.Client is one.
type DryRunner interface {
	DryRunFleet(ctx context.Context, in *awsec2.CreateFleetInput) error
	DryRunInstances(ctx context.Context, in *awsec2.RunInstancesInput) error
}

// Authorize asks EC2 whether instances may be launched from the class, whose status must be resolved (ec2
// §3.5): it makes sure of a launch template, then tries CreateFleet and RunInstances without effect. A
// *nodeclass.Refusal is a definite no; any other error says nothing, ask again. EC2 looks at permissions
// before anything else, so that every other refusal means that the call is allowed.
func (b *Builder) Authorize(ctx context.Context, nc *awsv1.EC2NodeClass) error {
	cluster, err := b.cfg.Cluster(ctx)
	if err != nil {
		return err
	}
	p := probe{
		nc: nc, in: Input{NodeClass: nc, Claim: &karpv1.NodeClaim{}}, cluster: cluster,
		image: probeImage(nc.Status.AMIs), selection: Selection{CapacityType: karpv1.CapacityTypeOnDemand},
	}
	t, err := template(p.in, p.selection, group{image: p.image, maxPods: probePods}, cluster, b.cfg.Region)
	if err != nil {
		return refusedTemplate(err)
	}
	b.userData.made(nc.Name, t)
	ref, err := b.ensure(ctx, t)
	if err != nil {
		return refusedTemplate(err)
	}
	if err := b.cfg.DryRun.DryRunFleet(ctx, p.fleet(ref.ID, ref.Version)); !allowed(err) {
		return refused("CreateFleet", err)
	}
	return b.runs(ctx, p, t.Data)
}

// runs tries subnet by subnet: one that is allowed is enough, else the first one's answer counts.
func (b *Builder) runs(ctx context.Context, p probe, t *ec2types.RequestLaunchTemplateData) error {
	var first error
	for _, s := range p.nc.Status.Subnets {
		err := b.cfg.DryRun.DryRunInstances(ctx, p.run(s.ID, t))
		if allowed(err) {
			return nil
		}
		if first == nil {
			first = err
		}
	}
	if ec2.IsProfileUnknown(first) && aws.ToString(p.nc.Spec.InstanceProfile) != "" {
		return &nodeclass.Refusal{Reason: "InstanceProfileNotFound", Message: fmt.Sprintf("spec.instanceProfile: EC2 does not know instance profile %q", *p.nc.Spec.InstanceProfile), Err: first}
	}
	return refused("RunInstances", first)
}

// allowed: EC2 got past permissions. Answers that never came, throttling, credentials that are refused as
// such, and a profile that is not known yet say nothing. No error is an EC2 that knows no dry runs: what it
// launches is garbage, and collected as such.
func allowed(err error) bool {
	switch class := ec2.Classify(err); {
	case err == nil, class == ec2.DryRunOK:
		return true
	case ec2.IsUnauthorized(err), ec2.IsUnauthenticated(err):
		return false
	default:
		return class == ec2.Permanent || class == ec2.NoCapacity
	}
}

func refused(action string, err error) error {
	if !ec2.IsUnauthorized(err) {
		return fmt.Errorf("dry-run %s: %w", action, err)
	}
	message := "Controller isn't authorized to call ec2:" + action + ": " + ec2.FailureOf(err).Message
	return &nodeclass.Refusal{Reason: action + "AuthCheckFailed", Message: message, Err: err}
}

func refusedTemplate(err error) error {
	if failure := ec2.FailureOf(err); failure.Reason == "UserDataSizeLimitExceeded" {
		return &nodeclass.Refusal{Reason: failure.Reason, Message: "spec.userData: " + failure.Message, Err: err}
	}
	return refused("CreateLaunchTemplate", err)
}

// probePods is maxPods in the template that is made for the question alone.
const probePods = 110

// probe is what is asked for.
type probe struct {
	nc        *awsv1.EC2NodeClass
	in        Input
	selection Selection
	cluster   Cluster
	image     awsv1.AMI
}

// probeImage prefers an image of ordinary instance types.
func probeImage(images []awsv1.AMI) awsv1.AMI {
	i := slices.IndexFunc(images, func(a awsv1.AMI) bool {
		return !slices.ContainsFunc(a.Requirements, func(r corev1.NodeSelectorRequirement) bool { return r.Operator == corev1.NodeSelectorOpExists })
	})
	if i >= 0 {
		return images[i]
	}
	if len(images) > 0 {
		return images[0]
	}
	return awsv1.AMI{}
}

// types are common ones of the image's architecture; EC2 need not have them where we are.
func (p probe) types() []string {
	for _, r := range p.image.Requirements {
		if r.Key == corev1.LabelArchStable && slices.Contains(r.Values, "arm64") {
			return []string{"m6g.large", "c6g.large", "m7g.large"}
		}
	}
	return []string{"m5.large", "c5.large", "m6i.large"}
}

func (p probe) fleet(template, version string) *awsec2.CreateFleetInput {
	c := ec2types.FleetLaunchTemplateConfigRequest{LaunchTemplateSpecification: &ec2types.FleetLaunchTemplateSpecificationRequest{
		LaunchTemplateId: aws.String(template), Version: aws.String(version),
	}}
	for _, s := range p.nc.Status.Subnets {
		for _, t := range p.types() {
			c.Overrides = append(c.Overrides, ec2types.FleetLaunchTemplateOverridesRequest{
				InstanceType: ec2types.InstanceType(t), SubnetId: aws.String(s.ID), AvailabilityZone: aws.String(s.Zone), ImageId: aws.String(p.image.ID),
			})
		}
	}
	return request(p.in, p.selection, resourceTags(p.in, p.cluster), []ec2types.FleetLaunchTemplateConfigRequest{c})
}

// run asks for one instance as the launch template t would make it.
func (p probe) run(subnet string, t *ec2types.RequestLaunchTemplateData) *awsec2.RunInstancesInput {
	tags := resourceTags(p.in, p.cluster)
	in := &awsec2.RunInstancesInput{
		MinCount: aws.Int32(1), MaxCount: aws.Int32(1), InstanceType: ec2types.InstanceType(p.types()[0]), ImageId: aws.String(p.image.ID),
		IamInstanceProfile: &ec2types.IamInstanceProfileSpecification{Name: aws.String(p.nc.Status.InstanceProfile)},
		Monitoring:         &ec2types.RunInstancesMonitoringEnabled{Enabled: t.Monitoring.Enabled},
		UserData:           t.UserData,
		NetworkInterfaces: []ec2types.InstanceNetworkInterfaceSpecification{{
			DeviceIndex: aws.Int32(0), SubnetId: aws.String(subnet), Groups: groupIDs(p.nc), AssociatePublicIpAddress: p.nc.Spec.AssociatePublicIPAddress,
		}},
	}
	if m := t.MetadataOptions; m != nil {
		in.MetadataOptions = &ec2types.InstanceMetadataOptionsRequest{
			HttpEndpoint: ec2types.InstanceMetadataEndpointState(m.HttpEndpoint), HttpTokens: ec2types.HttpTokensState(m.HttpTokens),
			HttpPutResponseHopLimit: m.HttpPutResponseHopLimit, HttpProtocolIpv6: ec2types.InstanceMetadataProtocolState(m.HttpProtocolIpv6),
		}
	}
	for _, kind := range []ec2types.ResourceType{ec2types.ResourceTypeInstance, ec2types.ResourceTypeVolume, ec2types.ResourceTypeNetworkInterface} {
		in.TagSpecifications = append(in.TagSpecifications, ec2types.TagSpecification{ResourceType: kind, Tags: ec2.Tags(tags)})
	}
	return in
}

func groupIDs(nc *awsv1.EC2NodeClass) []string {
	var ids []string
	for _, g := range nc.Status.SecurityGroups {
		ids = append(ids, g.ID)
	}
	return ids
}
