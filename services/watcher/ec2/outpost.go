package ec2

import (
	"context"
	"fmt"
	"maps"
	"slices"

	"github.com/aws/aws-sdk-go-v2/aws"
	awsec2 "github.com/aws/aws-sdk-go-v2/service/ec2"
	ec2types "github.com/aws/aws-sdk-go-v2/service/ec2/types"

	karpawsv1 "millwright/api/karpenteraws/v1"
	"millwright/services/internal/ec2"
)

const subnetsPage = 500

// outposts are the subnets on Outposts, and what each Outpost has. They never change.
type outposts struct {
	// of is the ARN of a subnet's Outpost, types are those that an Outpost has.
	of    map[string]string
	types map[string]map[string]bool
	// seen are all subnets that there were, on an Outpost or not.
	seen map[string]bool
}

func (o *outposts) equal(other *outposts) bool {
	if o == nil || other == nil {
		return o == other
	}
	return maps.Equal(o.of, other.of) && maps.EqualFunc(o.types, other.types, maps.Equal)
}

// pollOutposts learns which subnets are on Outposts, and what these have. Most accounts have none.
func (p *Poller) pollOutposts(ctx context.Context) error {
	now, err := p.describeOutposts(ctx)
	if err != nil {
		return err
	}
	if before := p.outposts.Swap(now); !before.equal(now) && (before != nil || len(now.of) > 0) {
		p.catalogs.recompute()
		p.ClassesChanged()
	}
	return nil
}

// describeOutposts reads all subnets, page by page: not every EC2 knows the filter outpost-arn.
func (p *Poller) describeOutposts(ctx context.Context) (*outposts, error) {
	now := &outposts{of: map[string]string{}, types: map[string]map[string]bool{}, seen: map[string]bool{}}
	in := &awsec2.DescribeSubnetsInput{MaxResults: aws.Int32(subnetsPage)}
	var answer ec2.Pages
	for pages := awsec2.NewDescribeSubnetsPaginator(p.cfg.EC2, in); pages.HasMorePages(); {
		page, err := pages.NextPage(ctx)
		if err == nil {
			err = answer.Next("ec2:DescribeSubnets", page.NextToken)
		}
		if err != nil {
			return nil, fmt.Errorf("describe subnets, some of which may be on Outposts: %w", err)
		}
		for _, s := range page.Subnets {
			id, arn := aws.ToString(s.SubnetId), aws.ToString(s.OutpostArn)
			if now.seen[id] = true; arn != "" {
				now.of[id], now.types[arn] = arn, nil
			}
		}
	}
	for _, arn := range slices.Sorted(maps.Keys(now.types)) {
		zones := map[string]map[string]bool{}
		if err := p.describeOfferings(ctx, ec2types.LocationTypeOutpost, arn, zones); err != nil {
			return nil, fmt.Errorf("%s: %w", arn, err)
		}
		now.types[arn] = map[string]bool{}
		for name := range zones {
			now.types[arn][name] = true
		}
	}
	return now, nil
}

// misses reports that a NodeClass has a subnet of which it is not known whether it is on an Outpost.
func (o *outposts) misses(nc *karpawsv1.EC2NodeClass) bool {
	return o != nil && slices.ContainsFunc(nc.Status.Subnets, func(s karpawsv1.Subnet) bool { return !o.seen[s.ID] })
}

// inZones says what the zones of a NodeClass have: of a zone in which all of its subnets are on Outposts,
// what these have; of any other what EC2 has in the zone. onOutposts are the former zones.
func (o *offered) inZones(nc *karpawsv1.EC2NodeClass, known *outposts) (zones map[string]map[string]bool, onOutposts map[string]bool) {
	if known == nil || len(known.of) == 0 {
		return o.zones, nil
	}
	arns, elsewhere := map[string][]string{}, map[string]bool{}
	for _, s := range nc.Status.Subnets {
		if arn := known.of[s.ID]; arn != "" {
			arns[s.Zone] = append(arns[s.Zone], arn)
			continue
		}
		elsewhere[s.Zone] = true
	}
	maps.DeleteFunc(arns, func(zone string, _ []string) bool { return elsewhere[zone] })
	if len(arns) == 0 {
		return o.zones, nil
	}
	zones, onOutposts = map[string]map[string]bool{}, map[string]bool{}
	for zone := range arns {
		onOutposts[zone] = true
	}
	for i := range o.types {
		name := string(o.types[i].InstanceType)
		in := maps.Clone(o.zones[name])
		if in == nil {
			in = map[string]bool{}
		}
		for zone, list := range arns {
			in[zone] = slices.ContainsFunc(list, func(arn string) bool { return known.types[arn][name] })
		}
		zones[name] = in
	}
	return zones, onOutposts
}
