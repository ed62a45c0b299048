package cloud

import (
	"cmp"
	"context"
	"fmt"
	"reflect"
	"slices"

	"github.com/aws/aws-sdk-go-v2/aws"
	awsec2 "github.com/aws/aws-sdk-go-v2/service/ec2"
	ec2types "github.com/aws/aws-sdk-go-v2/service/ec2/types"
	"github.com/aws/smithy-go"

	"millwright/services/internal/ec2"
)

// fleet is what a client token stands for.
type fleet struct {
	request *awsec2.CreateFleetInput
	result  ec2.FleetResult
}

func apiError(action, code string) error {
	return &ec2.CallError{Action: action, Mutating: true, Err: &smithy.GenericAPIError{Code: code, Message: code}}
}

// Throttled is the error of a call that did nothing because there were too many.
func Throttled(action string) error { return apiError(action, "RequestLimitExceeded") }

// Unauthorized is the error of a call that the caller's IAM policies do not allow.
func Unauthorized(action string) error { return apiError(action, "UnauthorizedOperation") }

// Unanswered is the error of a call whose outcome is unknown, or for a reading one, that has to be repeated.
func Unanswered(action string, mutating bool) error {
	return &ec2.CallError{Action: action, Mutating: mutating, Err: fmt.Errorf("connection reset: %w", context.DeadlineExceeded)}
}

// CreateFleet launches instances of the cheapest offering that can be had, sometimes fewer than it is asked
// for. It keeps the request, which must not change any more.
func (c *Cloud) CreateFleet(in *awsec2.CreateFleetInput) (ec2.FleetResult, error) {
	token := aws.ToString(in.ClientToken)
	f, known := c.fleets[token]
	switch {
	case known && !reflect.DeepEqual(f.request, in):
		return ec2.FleetResult{}, apiError("ec2:CreateFleet", "IdempotentParameterMismatch")
	case known:
		return f.result, nil
	case !c.templatesExist(in):
		return ec2.FleetResult{}, apiError("ec2:CreateFleet", "InvalidLaunchTemplateId.NotFound")
	}
	f = fleet{request: in, result: c.startFleet(in)}
	c.fleets[token] = f
	return f.result, nil
}

func (c *Cloud) templatesExist(in *awsec2.CreateFleetInput) bool {
	return !slices.ContainsFunc(in.LaunchTemplateConfigs, func(x ec2types.FleetLaunchTemplateConfigRequest) bool {
		_, ok := c.templates.byID[aws.ToString(x.LaunchTemplateSpecification.LaunchTemplateId)]
		return !ok
	})
}

// override is one thing a fleet may launch.
type override struct {
	Offering
	template, subnet, image string
	// reservation that the template targets; nil for none.
	reservation *Reservation
}

func (c *Cloud) overrides(in *awsec2.CreateFleetInput) []override {
	var list []override
	ct := string(in.TargetCapacitySpecification.DefaultTargetCapacityType)
	for _, config := range in.LaunchTemplateConfigs {
		template := aws.ToString(config.LaunchTemplateSpecification.LaunchTemplateId)
		target := c.targetOf(template)
		for _, o := range config.Overrides {
			list = append(list, override{Offering{string(o.InstanceType), aws.ToString(o.AvailabilityZone), capacityTypeOf(target, ct)},
				template, aws.ToString(o.SubnetId), aws.ToString(o.ImageId), target})
		}
	}
	slices.SortStableFunc(list, func(a, b override) int { return cmp.Compare(Price(a.Offering), Price(b.Offering)) })
	return list
}

func (c *Cloud) startFleet(in *awsec2.CreateFleetInput) ec2.FleetResult {
	result := ec2.FleetResult{FleetID: fmt.Sprintf("fleet-%d", len(c.fleets)+1)}
	wanted := int(aws.ToInt32(in.TargetCapacitySpecification.TotalTargetCapacity))
	most := wanted
	if wanted > 1 && c.rng.IntN(1000) < c.Short {
		most = c.rng.IntN(wanted)
	}
	for _, o := range c.overrides(in) {
		for c.lacks(o) == "" && len(result.Instances) < most {
			i := c.launch(o, instanceTags(in))
			answer := i.Instance
			answer.Tags, answer.State, answer.LaunchTemplateID = nil, ec2.StatePending, o.template
			result.Instances = append(result.Instances, answer)
		}
		if len(result.Instances) == wanted {
			break
		}
		result.Errors = append(result.Errors, ec2.FleetError{Code: cmp.Or(c.lacks(o), "InsufficientInstanceCapacity"), Message: "no capacity",
			LaunchTemplateID: o.template, InstanceType: o.InstanceType, Zone: o.Zone, SubnetID: o.subnet, CapacityType: o.CapacityType})
	}
	return result
}

func instanceTags(in *awsec2.CreateFleetInput) map[string]string {
	tags := map[string]string{}
	for _, s := range in.TagSpecifications {
		if s.ResourceType != ec2types.ResourceTypeInstance {
			continue
		}
		for _, t := range s.Tags {
			tags[aws.ToString(t.Key)] = aws.ToString(t.Value)
		}
	}
	return tags
}
