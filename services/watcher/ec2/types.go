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

	"millwright/services/internal/ec2"
)

// Maximum page sizes of EC2.
const (
	typesPage     = 100
	offeringsPage = 1000
)

// pollTypes learns which types EC2 offers, and makes the catalogues be compared with them.
func (p *Poller) pollTypes(ctx context.Context) error {
	o := &offered{zones: map[string]map[string]bool{}}
	var err error
	if o.types, err = p.describeTypes(ctx); err != nil {
		return err
	}
	if err := p.describeOfferings(ctx, ec2types.LocationTypeAvailabilityZone, "", o.zones); err != nil {
		return err
	}
	if len(o.zones) == 0 {
		return errors.New("no instance types offerings found")
	}
	p.offered.Store(o)
	p.catalogs.recompute()
	p.ClassesChanged()
	return p.emitZonePrices()
}

// describeTypes returns the types by name.
func (p *Poller) describeTypes(ctx context.Context) ([]ec2types.InstanceTypeInfo, error) {
	in := &awsec2.DescribeInstanceTypesInput{MaxResults: aws.Int32(typesPage), Filters: []ec2types.Filter{
		{Name: aws.String("supported-virtualization-type"), Values: []string{"hvm"}},
		{Name: aws.String("processor-info.supported-architecture"), Values: []string{"x86_64", "arm64"}},
	}}
	var out []ec2types.InstanceTypeInfo
	var answer ec2.Pages
	for pages := awsec2.NewDescribeInstanceTypesPaginator(p.cfg.EC2, in); pages.HasMorePages(); {
		page, err := pages.NextPage(ctx)
		if err == nil {
			err = answer.Next("ec2:DescribeInstanceTypes", page.NextToken)
		}
		if err != nil {
			return nil, fmt.Errorf("describe instance types: %w", err)
		}
		out = append(out, page.InstanceTypes...)
	}
	out = slices.DeleteFunc(out, func(t ec2types.InstanceTypeInfo) bool { return !isRunnable(&t) })
	if len(out) == 0 {
		return nil, errors.New("no instance types found")
	}
	slices.SortFunc(out, func(a, b ec2types.InstanceTypeInfo) int {
		return strings.Compare(string(a.InstanceType), string(b.InstanceType))
	})
	return out, nil
}

// isRunnable reports that a type can run our images, as far as EC2 says what it is: the filters of
// describeTypes, again. An EC2 that passes over them answers with Macs, too.
func isRunnable(t *ec2types.InstanceTypeInfo) bool {
	if v := t.SupportedVirtualizationTypes; len(v) > 0 && !slices.Contains(v, ec2types.VirtualizationTypeHvm) {
		return false
	}
	return t.ProcessorInfo == nil || len(t.ProcessorInfo.SupportedArchitectures) == 0 || architecture(t) != ""
}

// describeOfferings notes in which zones, or other locations of a kind, types are offered. location narrows
// them to one; "" for all.
func (p *Poller) describeOfferings(ctx context.Context, kind ec2types.LocationType, location string, zones map[string]map[string]bool) error {
	in := &awsec2.DescribeInstanceTypeOfferingsInput{MaxResults: aws.Int32(offeringsPage), LocationType: kind}
	if location != "" {
		in.Filters = []ec2types.Filter{{Name: aws.String("location"), Values: []string{location}}}
	}
	var answer ec2.Pages
	for pages := awsec2.NewDescribeInstanceTypeOfferingsPaginator(p.cfg.EC2, in); pages.HasMorePages(); {
		page, err := pages.NextPage(ctx)
		if err == nil {
			err = answer.Next("ec2:DescribeInstanceTypeOfferings", page.NextToken)
		}
		if err != nil {
			return fmt.Errorf("describe instance type offerings: %w", err)
		}
		for _, o := range page.InstanceTypeOfferings {
			name := string(o.InstanceType)
			if location != "" && aws.ToString(o.Location) != location {
				continue
			}
			if zones[name] == nil {
				zones[name] = map[string]bool{}
			}
			zones[name][aws.ToString(o.Location)] = true
		}
	}
	return nil
}
