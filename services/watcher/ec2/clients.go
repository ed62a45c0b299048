package ec2

import (
	"context"
	"strings"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/arczonalshift"
	awsec2 "github.com/aws/aws-sdk-go-v2/service/ec2"
	"github.com/aws/aws-sdk-go-v2/service/eks"
	"github.com/aws/aws-sdk-go-v2/service/pricing"
)

// EC2 is what is asked of EC2; *awsec2.Client is one.
type EC2 interface {
	awsec2.DescribeInstanceTypesAPIClient
	awsec2.DescribeInstanceTypeOfferingsAPIClient
	awsec2.DescribeSpotPriceHistoryAPIClient
	awsec2.DescribeInstancesAPIClient
	awsec2.DescribeInstanceStatusAPIClient
	awsec2.DescribeCapacityReservationsAPIClient
	awsec2.DescribeSubnetsAPIClient
}

// Pricing is what is asked of the price API; *pricing.Client is one.
type Pricing interface {
	GetProducts(ctx context.Context, in *pricing.GetProductsInput, opts ...func(*pricing.Options)) (*pricing.GetProductsOutput, error)
}

// Clients makes SDK clients for Config. The price API is served in few regions; the one that answers for this
// region is asked (ec2 §0.1).
func Clients(cfg aws.Config) (EC2, Pricing) {
	region := pricingRegion(cfg.Region)
	return awsec2.NewFromConfig(cfg), pricing.NewFromConfig(cfg, func(o *pricing.Options) { o.Region = region })
}

// ShiftClients makes the SDK clients of ShiftConfig.
func ShiftClients(cfg aws.Config) *ShiftConfig {
	return &ShiftConfig{ARC: arczonalshift.NewFromConfig(cfg), EKS: eks.NewFromConfig(cfg)}
}

func pricingRegion(region string) string {
	switch {
	case strings.HasPrefix(region, "ap-"):
		return "ap-south-1"
	case strings.HasPrefix(region, "cn-"):
		return "cn-northwest-1"
	case strings.HasPrefix(region, "eu-"):
		return "eu-central-1"
	}
	return "us-east-1"
}
