package ec2

import (
	"context"
	"maps"
	"slices"
	"strings"

	"github.com/aws/aws-sdk-go-v2/aws"
	awsec2 "github.com/aws/aws-sdk-go-v2/service/ec2"
	ec2types "github.com/aws/aws-sdk-go-v2/service/ec2/types"

	awsv1 "millwright/api/karpenteraws/v1"
)

// Subnet as EC2 describes it.
type Subnet struct {
	ID, Zone, ZoneID string
	// FreeAddresses is the number of IPv4 addresses left.
	FreeAddresses int32
	// OutpostARN is of the Outpost that it is on; "" if it is in the region.
	OutpostARN string
}

// SecurityGroup as EC2 describes it.
type SecurityGroup struct{ ID, Name string }

const networkPageSize = 500

// DescribeSubnets returns the subnets that any of the terms selects, by free addresses descending, then id
// (ec2 §3.1).
func (c *Client) DescribeSubnets(ctx context.Context, terms []awsv1.SubnetSelectorTerm) ([]Subnet, error) {
	byID := map[string]Subnet{}
	for _, filters := range subnetFilters(terms) {
		in := &awsec2.DescribeSubnetsInput{Filters: filters, MaxResults: aws.Int32(networkPageSize)}
		var pages Pages
		for p := awsec2.NewDescribeSubnetsPaginator(c.ec2, in); p.HasMorePages(); {
			page, err := read(ctx, c, "ec2:DescribeSubnets", p.NextPage)
			if err == nil {
				err = pages.Next("ec2:DescribeSubnets", page.NextToken)
			}
			if err != nil {
				return nil, err
			}
			for _, s := range page.Subnets {
				byID[aws.ToString(s.SubnetId)] = Subnet{
					ID: aws.ToString(s.SubnetId), Zone: aws.ToString(s.AvailabilityZone),
					ZoneID: aws.ToString(s.AvailabilityZoneId), FreeAddresses: aws.ToInt32(s.AvailableIpAddressCount), OutpostARN: aws.ToString(s.OutpostArn),
				}
			}
		}
	}
	return sortedValues(byID, func(a, b Subnet) int {
		if a.FreeAddresses != b.FreeAddresses {
			return int(b.FreeAddresses) - int(a.FreeAddresses)
		}
		return strings.Compare(a.ID, b.ID)
	}), nil
}

// DescribeSecurityGroups returns the groups that any of the terms selects, by id.
func (c *Client) DescribeSecurityGroups(ctx context.Context, terms []awsv1.SecurityGroupSelectorTerm) ([]SecurityGroup, error) {
	byID := map[string]SecurityGroup{}
	for _, filters := range securityGroupFilters(terms) {
		in := &awsec2.DescribeSecurityGroupsInput{Filters: filters, MaxResults: aws.Int32(networkPageSize)}
		var pages Pages
		for p := awsec2.NewDescribeSecurityGroupsPaginator(c.ec2, in); p.HasMorePages(); {
			page, err := read(ctx, c, "ec2:DescribeSecurityGroups", p.NextPage)
			if err == nil {
				err = pages.Next("ec2:DescribeSecurityGroups", page.NextToken)
			}
			if err != nil {
				return nil, err
			}
			for _, g := range page.SecurityGroups {
				byID[aws.ToString(g.GroupId)] = SecurityGroup{ID: aws.ToString(g.GroupId), Name: aws.ToString(g.GroupName)}
			}
		}
	}
	return sortedValues(byID, func(a, b SecurityGroup) int { return strings.Compare(a.ID, b.ID) }), nil
}

// subnetFilters gives one filter set per term with tags and one for all ids together.
func subnetFilters(terms []awsv1.SubnetSelectorTerm) [][]ec2types.Filter {
	var sets [][]ec2types.Filter
	var ids []string
	for _, t := range terms {
		switch {
		case t.ID != "":
			ids = append(ids, t.ID)
		case len(t.Tags) > 0:
			sets = append(sets, tagFilters(t.Tags))
		}
	}
	return appendJoined(sets, "subnet-id", ids)
}

func securityGroupFilters(terms []awsv1.SecurityGroupSelectorTerm) [][]ec2types.Filter {
	var sets [][]ec2types.Filter
	var ids, names []string
	for _, t := range terms {
		switch {
		case t.ID != "":
			ids = append(ids, t.ID)
		case t.Name != "":
			names = append(names, t.Name)
		case len(t.Tags) > 0:
			sets = append(sets, tagFilters(t.Tags))
		}
	}
	return appendJoined(appendJoined(sets, "group-id", ids), "group-name", names)
}

func appendJoined(sets [][]ec2types.Filter, name string, values []string) [][]ec2types.Filter {
	if len(values) == 0 {
		return sets
	}
	slices.Sort(values)
	return append(sets, []ec2types.Filter{filter(name, slices.Compact(values)...)})
}

// tagFilters ANDs the tags; the value * asks only for the key. Other wildcards are left to EC2.
func tagFilters(tags map[string]string) []ec2types.Filter {
	var filters []ec2types.Filter
	for _, k := range slices.Sorted(maps.Keys(tags)) {
		if tags[k] == "*" {
			filters = append(filters, filter("tag-key", k))
			continue
		}
		filters = append(filters, filter("tag:"+k, tags[k]))
	}
	return filters
}

func filter(name string, values ...string) ec2types.Filter {
	return ec2types.Filter{Name: aws.String(name), Values: values}
}
