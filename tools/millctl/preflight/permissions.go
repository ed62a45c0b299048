package preflight

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/arczonalshift"
	"github.com/aws/aws-sdk-go-v2/service/ec2"
	ec2types "github.com/aws/aws-sdk-go-v2/service/ec2/types"
	"github.com/aws/aws-sdk-go-v2/service/eks"
	awsiam "github.com/aws/aws-sdk-go-v2/service/iam"
	"github.com/aws/aws-sdk-go-v2/service/pricing"
	pricingtypes "github.com/aws/aws-sdk-go-v2/service/pricing/types"
	"github.com/aws/aws-sdk-go-v2/service/ssm"
	smithyhttp "github.com/aws/smithy-go/transport/http"
	"k8s.io/client-go/discovery"

	"millwright/deploy/iam"
	watcherec2 "millwright/services/watcher/ec2"
)

// account is what permissions are tried on.
type account struct {
	cfg     Config
	ec2     *ec2.Client
	image   string
	subnet  string
	running *ec2types.Instance
	// template of the cluster; "": there is none.
	template string
}

// errNothingToAsk: the action changes something, of which there is nothing yet.
var errNothingToAsk = errors.New("there is nothing yet that it could be tried on")

// trials try an action without doing anything: EC2 has dry runs, and reading does no harm. Each returns nil
// if it was allowed, or AWS's answer.
var trials = map[string]func(context.Context, *account) error{
	"ec2:DescribeCapacityReservations": func(ctx context.Context, a *account) error {
		_, err := a.ec2.DescribeCapacityReservations(ctx, &ec2.DescribeCapacityReservationsInput{DryRun: yes})
		return err
	},
	"ec2:DescribeImages": func(ctx context.Context, a *account) error {
		_, err := a.ec2.DescribeImages(ctx, &ec2.DescribeImagesInput{DryRun: yes, Owners: []string{"self"}})
		return err
	},
	"ec2:DescribeInstanceStatus": func(ctx context.Context, a *account) error {
		_, err := a.ec2.DescribeInstanceStatus(ctx, &ec2.DescribeInstanceStatusInput{DryRun: yes})
		return err
	},
	"ec2:DescribeInstanceTypeOfferings": func(ctx context.Context, a *account) error {
		_, err := a.ec2.DescribeInstanceTypeOfferings(ctx, &ec2.DescribeInstanceTypeOfferingsInput{DryRun: yes})
		return err
	},
	"ec2:DescribeInstanceTypes": func(ctx context.Context, a *account) error {
		_, err := a.ec2.DescribeInstanceTypes(ctx, &ec2.DescribeInstanceTypesInput{DryRun: yes})
		return err
	},
	"ec2:DescribeInstances": func(ctx context.Context, a *account) error {
		_, err := a.ec2.DescribeInstances(ctx, &ec2.DescribeInstancesInput{DryRun: yes})
		return err
	},
	"ec2:DescribeLaunchTemplates": func(ctx context.Context, a *account) error {
		_, err := a.ec2.DescribeLaunchTemplates(ctx, &ec2.DescribeLaunchTemplatesInput{DryRun: yes})
		return err
	},
	"ec2:DescribePlacementGroups": func(ctx context.Context, a *account) error {
		_, err := a.ec2.DescribePlacementGroups(ctx, &ec2.DescribePlacementGroupsInput{DryRun: yes})
		return err
	},
	"ec2:DescribeSecurityGroups": func(ctx context.Context, a *account) error {
		_, err := a.ec2.DescribeSecurityGroups(ctx, &ec2.DescribeSecurityGroupsInput{DryRun: yes})
		return err
	},
	"ec2:DescribeSpotPriceHistory": func(ctx context.Context, a *account) error {
		_, err := a.ec2.DescribeSpotPriceHistory(ctx, &ec2.DescribeSpotPriceHistoryInput{DryRun: yes})
		return err
	},
	"ec2:DescribeSubnets": func(ctx context.Context, a *account) error {
		_, err := a.ec2.DescribeSubnets(ctx, &ec2.DescribeSubnetsInput{DryRun: yes})
		return err
	},
	"ec2:CreateLaunchTemplate": func(ctx context.Context, a *account) error {
		_, err := a.ec2.CreateLaunchTemplate(ctx, &ec2.CreateLaunchTemplateInput{DryRun: yes, LaunchTemplateName: aws.String("millwright-preflight"),
			LaunchTemplateData: &ec2types.RequestLaunchTemplateData{InstanceType: trialType}, TagSpecifications: a.tags(ec2types.ResourceTypeLaunchTemplate)})
		return err
	},
	"ec2:RunInstances": func(ctx context.Context, a *account) error {
		if a.image == "" || a.subnet == "" {
			return fmt.Errorf("%w: no image, or no subnet with the tag %s=%s, was found, nor an EC2NodeClass that has both in its status", errNothingToAsk, discoveryTag, a.cfg.Cluster)
		}
		_, err := a.ec2.RunInstances(ctx, &ec2.RunInstancesInput{DryRun: yes, ImageId: &a.image, SubnetId: &a.subnet, InstanceType: trialType, MinCount: aws.Int32(1), MaxCount: aws.Int32(1),
			TagSpecifications: a.tags(ec2types.ResourceTypeInstance, ec2types.ResourceTypeVolume, ec2types.ResourceTypeNetworkInterface)})
		return err
	},
	"ec2:CreateFleet": func(ctx context.Context, a *account) error {
		if a.template == "" {
			return errNothingToAsk
		}
		_, err := a.ec2.CreateFleet(ctx, &ec2.CreateFleetInput{DryRun: yes, Type: ec2types.FleetTypeInstant,
			LaunchTemplateConfigs: []ec2types.FleetLaunchTemplateConfigRequest{{LaunchTemplateSpecification: &ec2types.FleetLaunchTemplateSpecificationRequest{
				LaunchTemplateId: &a.template, Version: aws.String("$Latest")}}},
			TargetCapacitySpecification: &ec2types.TargetCapacitySpecificationRequest{TotalTargetCapacity: aws.Int32(1), DefaultTargetCapacityType: ec2types.DefaultTargetCapacityTypeOnDemand},
			TagSpecifications:           a.tags(ec2types.ResourceTypeInstance, ec2types.ResourceTypeVolume, ec2types.ResourceTypeFleet)})
		return err
	},
	"ec2:CreateTags": func(ctx context.Context, a *account) error {
		if a.running == nil {
			return errNothingToAsk
		}
		_, err := a.ec2.CreateTags(ctx, &ec2.CreateTagsInput{DryRun: yes, Resources: []string{aws.ToString(a.running.InstanceId)},
			Tags: []ec2types.Tag{{Key: aws.String("Name"), Value: aws.String("preflight")}}})
		return err
	},
	"ec2:GetConsoleOutput": func(ctx context.Context, a *account) error {
		if a.running == nil {
			return errNothingToAsk
		}
		_, err := a.ec2.GetConsoleOutput(ctx, &ec2.GetConsoleOutputInput{DryRun: yes, InstanceId: a.running.InstanceId})
		return err
	},
	"ec2:TerminateInstances": func(ctx context.Context, a *account) error {
		if a.running == nil {
			return errNothingToAsk
		}
		_, err := a.ec2.TerminateInstances(ctx, &ec2.TerminateInstancesInput{DryRun: yes, InstanceIds: []string{aws.ToString(a.running.InstanceId)}})
		return err
	},
	"ec2:DeleteLaunchTemplate": func(ctx context.Context, a *account) error {
		if a.template == "" {
			return errNothingToAsk
		}
		_, err := a.ec2.DeleteLaunchTemplate(ctx, &ec2.DeleteLaunchTemplateInput{DryRun: yes, LaunchTemplateId: &a.template})
		return err
	},
	"arc-zonal-shift:GetManagedResource": func(ctx context.Context, a *account) error {
		out, err := eks.NewFromConfig(*a.cfg.AWS).DescribeCluster(ctx, &eks.DescribeClusterInput{Name: &a.cfg.Cluster})
		if err != nil || out.Cluster == nil {
			return errNothingToAsk // its own statement says why
		}
		_, err = arczonalshift.NewFromConfig(*a.cfg.AWS).GetManagedResource(ctx, &arczonalshift.GetManagedResourceInput{ResourceIdentifier: out.Cluster.Arn})
		return err
	},
	"eks:DescribeCluster": func(ctx context.Context, a *account) error {
		_, err := eks.NewFromConfig(*a.cfg.AWS).DescribeCluster(ctx, &eks.DescribeClusterInput{Name: &a.cfg.Cluster})
		return err
	},
	"iam:GetInstanceProfile": func(ctx context.Context, a *account) error {
		_, err := awsiam.NewFromConfig(*a.cfg.AWS).GetInstanceProfile(ctx, &awsiam.GetInstanceProfileInput{InstanceProfileName: aws.String("millwright-preflight")})
		return err
	},
	"pricing:GetProducts": func(ctx context.Context, a *account) error {
		_, prices := watcherec2.Clients(*a.cfg.AWS)
		_, err := prices.GetProducts(ctx, &pricing.GetProductsInput{
			ServiceCode: aws.String("AmazonEC2"), MaxResults: aws.Int32(1),
			Filters: []pricingtypes.Filter{{Type: pricingtypes.FilterTypeTermMatch, Field: aws.String("instanceType"), Value: aws.String(string(trialType))}}})
		return err
	},
	"ssm:GetParameter": func(ctx context.Context, a *account) error {
		_, err := a.recommendedImage(ctx)
		return err
	},
}

// untried are the actions that cannot be tried, with the reason.
var untried = map[string]string{
	"sqs:GetQueueUrl": "asked for the queue itself", "sqs:ReceiveMessage": "it would take messages", "sqs:DeleteMessage": "it would take messages",
	"iam:PassRole": noDryRun, "iam:CreateInstanceProfile": noDryRun, "iam:TagInstanceProfile": noDryRun, "iam:AddRoleToInstanceProfile": noDryRun,
	"iam:RemoveRoleFromInstanceProfile": noDryRun, "iam:DeleteInstanceProfile": noDryRun, "iam:ListInstanceProfiles": "it is used to find what is left over only",
}

const (
	noDryRun     = "IAM has no dry runs; the conditions of an EC2NodeClass tell"
	trialType    = ec2types.InstanceTypeM5Large
	discoveryTag = "karpenter.sh/discovery"
	// trialImage is the parameter that names EKS's image for a version of Kubernetes.
	trialImage = "/aws/service/eks/optimized-ami/%s/amazon-linux-2023/x86_64/standard/recommended/image_id"
)

var yes = aws.Bool(true)

// answers of AWS that mean that the caller was allowed to ask.
var (
	allowed = []string{"DryRunOperation", "NoSuchEntity", "ResourceNotFoundException", "ParameterNotFound"}
	refused = []string{"UnauthorizedOperation", "AccessDenied", "AccessDeniedException", "AuthorizationError"}
)

// checkPermissions tries each statement of the service's policy.
func checkPermissions(ctx context.Context, cfg Config, r *report) {
	if noAccount(cfg, r) {
		return
	}
	if cfg.Cluster == "" {
		r.add(Skipped, "", "Name it by --cluster-name.", "the name of the cluster is not known, which the policies name")
		return
	}
	a := newAccount(ctx, cfg)
	for _, s := range iam.Statements {
		if !iam.Has(cfg.Service, s) {
			continue
		}
		var denied, open, tried []string
		for _, action := range s.Actions {
			switch v, why := a.try(ctx, action); v {
			case Failed:
				denied = append(denied, action)
			case Skipped:
				open = append(open, action+" ("+why+")")
			default:
				tried = append(tried, action)
			}
		}
		addPermission(r, s, denied, open, tried)
	}
}

func addPermission(r *report, s iam.Statement, denied, open, tried []string) {
	switch {
	case len(denied) > 0 && s.Without != "":
		r.add(Warning, s.Sid, "Grant the statement: millctl aws policy.", "refused: %s; without it %s", strings.Join(denied, ", "), s.Without)
	case len(denied) > 0:
		r.add(Failed, s.Sid, "Grant the statement: millctl aws policy. "+s.Needs, "refused: %s", strings.Join(denied, ", "))
	case len(tried) == 0:
		r.add(Skipped, s.Sid, "", "not tried: %s", strings.Join(open, ", "))
	case len(open) > 0:
		r.add(OK, s.Sid, "", "allowed: %s; not tried: %s", strings.Join(tried, ", "), strings.Join(open, ", "))
	default:
		r.add(OK, s.Sid, "", "allowed: %s", strings.Join(tried, ", "))
	}
}

// try an action: OK, Failed, or Skipped with the reason.
func (a *account) try(ctx context.Context, action string) (Verdict, string) {
	trial := trials[action]
	if trial == nil {
		return Skipped, untried[action]
	}
	err := trial(ctx, a)
	switch code := codeOf(err); {
	case err == nil || slices.Contains(allowed, code):
		return OK, ""
	case slices.Contains(refused, code):
		return Failed, ""
	case code != "":
		return Skipped, code
	default:
		return Skipped, unreadable(err)
	}
}

// unreadable says of an answer that is not AWS's, such as a proxy's page, no more than its status.
func unreadable(err error) string {
	var r *smithyhttp.ResponseError
	if errors.As(err, &r) && r.HTTPStatusCode() >= 300 {
		return fmt.Sprintf("HTTP status %d without an error of AWS", r.HTTPStatusCode())
	}
	return err.Error()
}

// newAccount looks for what can be asked about; what is not found, or may not be looked for, stays empty.
func newAccount(ctx context.Context, cfg Config) *account {
	a := &account{cfg: cfg, ec2: ec2.NewFromConfig(*cfg.AWS)}
	a.image, _ = a.recommendedImage(ctx)
	ofCluster := []ec2types.Filter{{Name: aws.String("tag:kubernetes.io/cluster/" + cfg.Cluster), Values: []string{"owned"}},
		{Name: aws.String("tag-key"), Values: []string{"karpenter.sh/nodepool"}}}
	if out, err := a.ec2.DescribeSubnets(ctx, &ec2.DescribeSubnetsInput{Filters: []ec2types.Filter{{Name: aws.String("tag:" + discoveryTag), Values: []string{cfg.Cluster}}}}); err == nil && len(out.Subnets) > 0 {
		a.subnet = aws.ToString(out.Subnets[0].SubnetId)
	}
	if a.image == "" || a.subnet == "" {
		a.image, a.subnet = resolvedByClass(ctx, cfg)
	}
	if out, err := a.ec2.DescribeLaunchTemplates(ctx, &ec2.DescribeLaunchTemplatesInput{Filters: ofCluster}); err == nil && len(out.LaunchTemplates) > 0 {
		a.template = aws.ToString(out.LaunchTemplates[0].LaunchTemplateId)
	}
	running := append(ofCluster, ec2types.Filter{Name: aws.String("instance-state-name"), Values: []string{"running"}})
	if out, err := a.ec2.DescribeInstances(ctx, &ec2.DescribeInstancesInput{Filters: running}); err == nil && len(out.Reservations) > 0 && len(out.Reservations[0].Instances) > 0 {
		a.running = &out.Reservations[0].Instances[0]
	}
	return a
}

// recommendedImage for the version of the cluster; while that is not known, for the oldest.
func (a *account) recommendedImage(ctx context.Context) (string, error) {
	version := fmt.Sprintf("1.%d", minorMin)
	if a.cfg.Kube != nil {
		if c, err := discovery.NewDiscoveryClientForConfig(a.cfg.Kube); err == nil {
			if v, err := c.ServerVersion(); err == nil {
				version = v.Major + "." + strings.TrimRight(v.Minor, "+")
			}
		}
	}
	out, err := ssm.NewFromConfig(*a.cfg.AWS).GetParameter(ctx, &ssm.GetParameterInput{Name: aws.String(fmt.Sprintf(trialImage, version))})
	if err != nil || out.Parameter == nil {
		return "", err
	}
	return aws.ToString(out.Parameter.Value), nil
}

// tags as launches have them, which the policies demand.
func (a *account) tags(kinds ...ec2types.ResourceType) (out []ec2types.TagSpecification) {
	for _, k := range kinds {
		out = append(out, ec2types.TagSpecification{ResourceType: k, Tags: []ec2types.Tag{
			{Key: aws.String("kubernetes.io/cluster/" + a.cfg.Cluster), Value: aws.String("owned")},
			{Key: aws.String("eks:eks-cluster-name"), Value: &a.cfg.Cluster},
			{Key: aws.String("karpenter.sh/nodepool"), Value: aws.String("preflight")},
		}})
	}
	return out
}
