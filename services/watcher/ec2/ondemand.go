package ec2

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/pricing"
	pricingtypes "github.com/aws/aws-sdk-go-v2/service/pricing/types"

	"millwright/services/internal/ec2"
)

const productsPage = 100

// pollOnDemand overlays the on-demand prices, first the built-in ones, with those of the price API (ec2
// §2.2). Where there is none, the built-in table is all that is known; if it fails, the table stands in.
func (p *Poller) pollOnDemand(ctx context.Context) error {
	if !p.asksPrices() {
		return p.emitBuiltInPrices()
	}
	found, err := p.onDemandPrices(ctx)
	if err != nil {
		return err
	}
	p.prices.Lock()
	defer p.prices.Unlock()
	switch yuan := pricedInYuan(p.cfg.Region); {
	case yuan && p.prices.builtIn: // dollars do not go with yuan
		p.prices.removeOnDemand()
	case !yuan && !p.prices.knowsOnDemand():
		p.prices.addFound(pricesFor(p.cfg.Region).onDemand())
	}
	p.prices.builtIn = false
	p.prices.addFound(found)
	p.prices.assumeSpot()
	return p.emitPrices()
}

// emitBuiltInPrices stands in for prices that AWS does not provide, if none are known from before.
func (p *Poller) emitBuiltInPrices() error {
	p.prices.Lock()
	defer p.prices.Unlock()
	if !p.prices.knowsOnDemand() {
		t := pricesFor(p.cfg.Region)
		p.cfg.Logger.Warn().Str("of_region", t.Region).Str("of_date", t.Date).Int("estimated", t.estimated).Msg("on-demand prices are the built-in ones")
		p.prices.addFound(t.onDemand())
		p.prices.builtIn = true
	}
	p.prices.assumeSpot()
	return p.emitPrices()
}

// asksPrices: GovCloud has no price API, and an isolated network does not reach it.
func (p *Poller) asksPrices() bool {
	return !p.cfg.Options.IsolatedVPC && !strings.HasPrefix(p.cfg.Region, "us-gov")
}

// pricedInYuan: the price API answers in yuan, the built-in prices are in dollars.
func pricedInYuan(region string) bool { return strings.HasPrefix(region, "cn-") }

func (p *prices) knowsOnDemand() bool {
	for key := range p.known {
		if key.capacityType == onDemand && key.zone == "" {
			return true
		}
	}
	return false
}

func (t *PriceTable) onDemand() map[priceKey]int64 {
	out := map[priceKey]int64{}
	for name, price := range t.Prices {
		out[priceKey{name, onDemand, ""}] = price
	}
	return out
}

func (p *Poller) onDemandPrices(ctx context.Context) (map[priceKey]int64, error) {
	found, err := OnDemandPrices(ctx, p.cfg.Pricing, p.cfg.Region, func(err error) {
		p.cfg.Logger.Warn().Err(err).Msg("product of the price list skipped")
	})
	out := map[priceKey]int64{}
	for name, price := range found {
		out[priceKey{name, onDemand, ""}] = price
	}
	return out, err
}

// OnDemandPrices of a region by instance type, in millionths of its currency per hour; those without a price
// are omitted. It asks for virtual machines and for bare metal, which is sold as dedicated. skipped is called
// for each product that cannot be read.
func OnDemandPrices(ctx context.Context, api Pricing, region string, skipped func(error)) (map[string]int64, error) {
	found := map[string]int64{}
	for _, q := range []struct{ tenancy, family string }{
		{"Shared", "Compute Instance"}, {"Dedicated", "Compute Instance (bare metal)"},
	} {
		before := len(found)
		if err := products(ctx, api, region, q.tenancy, q.family, found, skipped); err != nil {
			return nil, fmt.Errorf("get prices of %s, %s: %w", q.family, q.tenancy, err)
		}
		if len(found) == before {
			return nil, fmt.Errorf("get prices of %s, %s: no on-demand pricing found", q.family, q.tenancy)
		}
	}
	return found, nil
}

func products(ctx context.Context, api Pricing, region, tenancy, family string, found map[string]int64, skipped func(error)) error {
	in := &pricing.GetProductsInput{ServiceCode: aws.String("AmazonEC2"), MaxResults: aws.Int32(productsPage)}
	for _, f := range [][2]string{
		{"regionCode", region}, {"serviceCode", "AmazonEC2"}, {"preInstalledSw", "NA"}, {"operatingSystem", "Linux"},
		{"capacitystatus", "Used"}, {"marketoption", "OnDemand"}, {"tenancy", tenancy}, {"productFamily", family},
	} {
		in.Filters = append(in.Filters, pricingtypes.Filter{Type: pricingtypes.FilterTypeTermMatch, Field: aws.String(f[0]), Value: aws.String(f[1])})
	}
	currency := "USD"
	if pricedInYuan(region) {
		currency = "CNY"
	}
	var answer ec2.Pages
	for pages := pricing.NewGetProductsPaginator(api, in); pages.HasMorePages(); {
		page, err := pages.NextPage(ctx)
		if err == nil {
			err = answer.Next("pricing:GetProducts", page.NextToken)
		}
		if err != nil {
			return err
		}
		for _, text := range page.PriceList {
			name, price, err := readProduct(text, currency)
			if err != nil {
				skipped(err)
				continue
			}
			if price > 0 {
				found[name] = price
			}
		}
	}
	return nil
}

// product is the part of an entry of the price list that contains a price.
type product struct {
	Product struct {
		Attributes struct {
			InstanceType string `json:"instanceType"`
		} `json:"attributes"`
	} `json:"product"`
	Terms struct {
		OnDemand map[string]struct {
			PriceDimensions map[string]struct {
				PricePerUnit map[string]string `json:"pricePerUnit"`
			} `json:"priceDimensions"`
		} `json:"OnDemand"`
	} `json:"terms"`
}

// readProduct returns the first price that is not zero, in the order of the keys.
func readProduct(text, currency string) (string, int64, error) {
	var e product
	if err := json.Unmarshal([]byte(text), &e); err != nil {
		return "", 0, fmt.Errorf("read product: %w", err)
	}
	name := e.Product.Attributes.InstanceType
	if name == "" {
		return "", 0, errors.New("read product: no instance type")
	}
	for _, term := range slices.Sorted(maps.Keys(e.Terms.OnDemand)) {
		dimensions := e.Terms.OnDemand[term].PriceDimensions
		for _, d := range slices.Sorted(maps.Keys(dimensions)) {
			amount, ok := dimensions[d].PricePerUnit[currency]
			if !ok {
				continue
			}
			price, err := microUSD(amount)
			if err != nil {
				return "", 0, fmt.Errorf("read product %s: %w", name, err)
			}
			if price > 0 {
				return name, price, nil
			}
		}
	}
	return name, 0, nil
}
