package ec2

import (
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	awsec2 "github.com/aws/aws-sdk-go-v2/service/ec2"

	"millwright/services/internal/ec2"
)

const spotPage = 1000

// spotProducts are those whose spot prices count.
var spotProducts = []string{"Linux/UNIX", "Linux/UNIX (Amazon VPC)"}

// pollSpot overlays the spot prices with the newest of each type and zone (ec2 §2.3).
func (p *Poller) pollSpot(ctx context.Context) error {
	found, err := p.spotPrices(ctx)
	if err != nil {
		return err
	}
	p.prices.Lock()
	defer p.prices.Unlock()
	p.prices.addFound(found)
	p.prices.spotSeen = true
	p.prices.assumeSpot()
	return p.emitPrices()
}

func (p *Poller) spotPrices(ctx context.Context) (map[priceKey]int64, error) {
	in := &awsec2.DescribeSpotPriceHistoryInput{
		ProductDescriptions: spotProducts,
		StartTime:           aws.Time(p.cfg.Clock()), MaxResults: aws.Int32(spotPage),
	}
	found := map[priceKey]int64{}
	newest := map[priceKey]time.Time{}
	var answer ec2.Pages
	for pages := awsec2.NewDescribeSpotPriceHistoryPaginator(p.cfg.EC2, in); pages.HasMorePages(); {
		page, err := pages.NextPage(ctx)
		if err == nil {
			err = answer.Next("ec2:DescribeSpotPriceHistory", page.NextToken)
		}
		if err != nil {
			return nil, fmt.Errorf("describe spot price history: %w", err)
		}
		for _, s := range page.SpotPriceHistory {
			if s.ProductDescription != "" && !slices.Contains(spotProducts, string(s.ProductDescription)) {
				continue // not what was asked for
			}
			key := priceKey{string(s.InstanceType), spot, aws.ToString(s.AvailabilityZone)}
			price, err := microUSD(aws.ToString(s.SpotPrice))
			if err != nil || price == 0 || key.zone == "" {
				p.cfg.Logger.Warn().Err(err).Str("instance_type", key.instanceType).Str("zone", key.zone).Msg("spot price skipped")
				continue
			}
			if at := aws.ToTime(s.Timestamp); !at.Before(newest[key]) {
				found[key], newest[key] = price, at
			}
		}
	}
	return found, nil
}
