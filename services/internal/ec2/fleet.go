package ec2

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/aws/aws-sdk-go-v2/aws"
	awsec2 "github.com/aws/aws-sdk-go-v2/service/ec2"
	ec2types "github.com/aws/aws-sdk-go-v2/service/ec2/types"
)

// FleetResult is the answer to CreateFleet. No instance and only errors of class NoCapacity is a normal
// answer.
type FleetResult struct {
	FleetID string
	// Instances by id, state pending; they have no Tags yet.
	Instances []Instance
	// Errors as EC2 gave them; there may be errors besides instances.
	Errors []FleetError
}

// FleetError is one entry of a fleet's Errors: which offering failed, and why.
type FleetError struct {
	Code, Message                              string
	InstanceType, Zone, SubnetID, CapacityType string
	// ReservationID of the capacity reservation that was asked for; LaunchTemplateID if EC2 says it.
	ReservationID, LaunchTemplateID string
	// Group is the placement group that was asked for, as in ledger.OfferingKey.
	Group string
}

func (e FleetError) String() string { return e.Code + ": " + e.Message }

// LacksTemplate reports that EC2 does not have a launch template that was asked for: with an instant fleet it
// says so in an answer rather than by refusing the call.
func (r FleetResult) LacksTemplate() bool {
	return slices.ContainsFunc(r.Errors, func(e FleetError) bool {
		return strings.HasPrefix(e.Code, "InvalidLaunchTemplate") && slices.Contains(notFoundCodes, e.Code)
	})
}

// CreateFleet sends the request once. It must be of type instant and carry the caller's ClientToken. If EC2
// does not name a capacity type in its answer, it is the one in the request.
func (c *Client) CreateFleet(ctx context.Context, in *awsec2.CreateFleetInput) (FleetResult, error) {
	if aws.ToString(in.ClientToken) == "" && !aws.ToBool(in.DryRun) {
		return FleetResult{}, errors.New("create fleet: request has no client token")
	}
	if in.Type != ec2types.FleetTypeInstant {
		return FleetResult{}, fmt.Errorf("create fleet: type %q is not instant", in.Type)
	}
	out, err := write(ctx, c, "ec2:CreateFleet", with(c.ec2.CreateFleet, in), once)
	if err != nil {
		return FleetResult{}, err
	}
	return fleetResult(out, requestedCapacityType(in)), nil
}

// once switches the SDK's retries off for one call.
func once(o *awsec2.Options) { o.Retryer = aws.NopRetryer{} }

func requestedCapacityType(in *awsec2.CreateFleetInput) string {
	if in.TargetCapacitySpecification == nil {
		return ""
	}
	return string(in.TargetCapacitySpecification.DefaultTargetCapacityType)
}

func fleetResult(out *awsec2.CreateFleetOutput, capacityType string) FleetResult {
	r := FleetResult{FleetID: aws.ToString(out.FleetId)}
	for _, f := range out.Instances {
		for _, id := range f.InstanceIds {
			if id != "" {
				r.Instances = append(r.Instances, fleetInstance(id, f, capacityType))
			}
		}
	}
	slices.SortFunc(r.Instances, func(a, b Instance) int { return strings.Compare(a.ID, b.ID) })
	for _, e := range out.Errors {
		r.Errors = append(r.Errors, fleetError(e, capacityType))
	}
	return r
}

func fleetInstance(id string, f ec2types.CreateFleetInstance, capacityType string) Instance {
	o := overridesOf(f.LaunchTemplateAndOverrides)
	return Instance{
		ID: id, State: StatePending, CapacityType: capacityTypeOf(f.Lifecycle, capacityType),
		InstanceType: firstOf(string(f.InstanceType), string(o.InstanceType)),
		Zone:         firstOf(aws.ToString(o.AvailabilityZone), aws.ToString(f.AvailabilityZone)),
		SubnetID:     firstOf(aws.ToString(o.SubnetId), aws.ToString(f.SubnetId)),
		ImageID:      aws.ToString(o.ImageId), LaunchTemplateID: templateOf(f.LaunchTemplateAndOverrides),
	}
}

func fleetError(e ec2types.CreateFleetError, capacityType string) FleetError {
	o := overridesOf(e.LaunchTemplateAndOverrides)
	return FleetError{
		Code: aws.ToString(e.ErrorCode), Message: aws.ToString(e.ErrorMessage), InstanceType: string(o.InstanceType),
		Zone: aws.ToString(o.AvailabilityZone), SubnetID: aws.ToString(o.SubnetId),
		// What was requested counts: that is the offering to mark (ec2 §4.6).
		CapacityType: firstOf(capacityType, capacityTypeOf(e.Lifecycle, "")), LaunchTemplateID: templateOf(e.LaunchTemplateAndOverrides),
	}
}

func templateOf(l *ec2types.LaunchTemplateAndOverridesResponse) string {
	if l == nil || l.LaunchTemplateSpecification == nil {
		return ""
	}
	return aws.ToString(l.LaunchTemplateSpecification.LaunchTemplateId)
}

func overridesOf(l *ec2types.LaunchTemplateAndOverridesResponse) ec2types.FleetLaunchTemplateOverrides {
	if l == nil || l.Overrides == nil {
		return ec2types.FleetLaunchTemplateOverrides{}
	}
	return *l.Overrides
}

func capacityTypeOf(l ec2types.InstanceLifecycle, fallback string) string {
	switch l {
	case ec2types.InstanceLifecycleSpot:
		return "spot"
	case ec2types.InstanceLifecycleOnDemand:
		return "on-demand"
	case ec2types.InstanceLifecycleCapacityBlock, ec2types.InstanceLifecycleInterruptibleCapacityReservation:
		return capacityTypeReserved
	}
	return fallback
}

func firstOf(values ...string) string {
	for _, v := range values {
		if v != "" {
			return v
		}
	}
	return ""
}
