package sim

import (
	"millwright/tools/ec2sim/sim/wire"
)

// allOperations are the calls the account understands, by service and action.
func (s *Server) allOperations() map[string]map[string]wire.Operation {
	return map[string]map[string]wire.Operation{
		"ec2":     s.ec2Operations(),
		"iam":     s.profiles.Operations(),
		"sts":     {"GetCallerIdentity": s.profiles.GetCallerIdentity},
		"ssm":     {"GetParameter": s.images.GetParameter},
		"pricing": {"GetProducts": s.prices.GetProducts},
		"sqs":     s.queue.Operations(),
		"eks":     {"DescribeCluster": s.cluster.DescribeCluster},

		"arc-zonal-shift": {"GetManagedResource": s.cluster.GetManagedResource},
	}
}

func (s *Server) ec2Operations() map[string]wire.Operation {
	return map[string]wire.Operation{
		"CreateFleet":                    s.instances.CreateFleet,
		"RunInstances":                   s.instances.RunInstances,
		"DescribeInstances":              s.instances.DescribeInstances,
		"DescribeInstanceStatus":         s.instances.DescribeInstanceStatus,
		"GetConsoleOutput":               s.instances.GetConsoleOutput,
		"TerminateInstances":             s.instances.TerminateInstances,
		"CreateTags":                     s.instances.CreateTags,
		"DeleteTags":                     s.instances.DeleteTags,
		"DescribeTags":                   s.instances.DescribeTags,
		"DescribeCapacityReservations":   s.reservations.DescribeCapacityReservations,
		"DescribePlacementGroups":        s.groups.DescribePlacementGroups,
		"CreatePlacementGroup":           s.groups.CreatePlacementGroup,
		"DeletePlacementGroup":           s.groups.DeletePlacementGroup,
		"CreateLaunchTemplate":           s.templates.CreateLaunchTemplate,
		"CreateLaunchTemplateVersion":    s.templates.CreateLaunchTemplateVersion,
		"DeleteLaunchTemplate":           s.templates.DeleteLaunchTemplate,
		"DescribeLaunchTemplates":        s.templates.DescribeLaunchTemplates,
		"DescribeLaunchTemplateVersions": s.templates.DescribeLaunchTemplateVersions,
		"DescribeSubnets":                s.vpc.DescribeSubnets,
		"DescribeSecurityGroups":         s.vpc.DescribeSecurityGroups,
		"DescribeAvailabilityZones":      s.vpc.DescribeAvailabilityZones,
		"DescribeImages":                 s.images.DescribeImages,
		"DescribeInstanceTypes":          s.types.DescribeInstanceTypes,
		"DescribeInstanceTypeOfferings":  s.types.DescribeInstanceTypeOfferings,
		"DescribeSpotPriceHistory":       s.prices.DescribeSpotPriceHistory,
	}
}
