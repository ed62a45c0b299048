package launch

import (
	"maps"

	ec2types "github.com/aws/aws-sdk-go-v2/service/ec2/types"

	karpv1 "millwright/api/karpenter/v1"
	awsv1 "millwright/api/karpenteraws/v1"
	"millwright/services/internal/ec2"
)

// resourceTags are the tags on everything a NodeClass's launches make; ours win over the user's (ec2 §4.5).
// They must not depend on the claim, or no two claims share a template.
func resourceTags(in Input, cluster Cluster) map[string]string {
	tags := map[string]string{}
	maps.Copy(tags, in.NodeClass.Spec.Tags)
	tags[awsv1.TagClusterPrefix+cluster.Name] = "owned"
	tags[awsv1.TagNodePool] = in.Claim.Labels[karpv1.NodePoolLabelKey]
	tags[awsv1.TagEKSClusterName] = cluster.Name
	tags[awsv1.TagNodeClass] = in.NodeClass.Name
	return tags
}

// launchTags are resourceTags and what names the attempt, and the claim if it is one. Of several, each
// instance is given the name of its own once it is known which that is.
func launchTags(in Input, cluster Cluster, o Order) map[string]string {
	tags := resourceTags(in, cluster)
	if len(o.Claims) == 1 {
		tags[awsv1.TagNodeClaim] = o.Claims[0]
	}
	tags[awsv1.TagLaunch] = o.LaunchTag
	return tags
}

func templateTags(tags map[string]string, capacityType string) []ec2types.LaunchTemplateTagSpecificationRequest {
	kinds := []ec2types.ResourceType{ec2types.ResourceTypeNetworkInterface}
	if capacityType == karpv1.CapacityTypeSpot {
		kinds = append(kinds, ec2types.ResourceTypeSpotInstancesRequest)
	}
	var out []ec2types.LaunchTemplateTagSpecificationRequest
	for _, k := range kinds {
		out = append(out, ec2types.LaunchTemplateTagSpecificationRequest{ResourceType: k, Tags: ec2.Tags(tags)})
	}
	return out
}

func fleetTags(tags map[string]string) []ec2types.TagSpecification {
	var out []ec2types.TagSpecification
	for _, k := range []ec2types.ResourceType{ec2types.ResourceTypeInstance, ec2types.ResourceTypeVolume, ec2types.ResourceTypeFleet} {
		out = append(out, ec2types.TagSpecification{ResourceType: k, Tags: ec2.Tags(tags)})
	}
	return out
}
