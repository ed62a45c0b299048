package pricing

import (
	"slices"
	"strconv"
	"strings"
	"time"

	"millwright/tools/ec2sim/catalogue"
	"millwright/tools/ec2sim/sim/wire"
)

// priceKey of an override; Zone "" holds for all zones.
type priceKey struct{ InstanceType, CapacityType, Zone string }

// Price is what an hour costs in micro USD: an override if there is one, else the catalogue or the model.
func (s *Prices) Price(t *catalogue.Type, capacityType, zone string, at time.Time) int64 {
	for _, z := range []string{zone, ""} {
		if p, ok := s.overrides[priceKey{t.Name, capacityType, z}]; ok {
			return p
		}
	}
	if capacityType == "spot" {
		return s.Spot.Price(t, zone, at)
	}
	return s.Region.OnDemand(t)
}

// UsdText writes micro USD as EC2 writes prices.
func UsdText(micro int64) string { return strconv.FormatFloat(float64(micro)/1e6, 'f', 6, 64) }

type xmlSpotPrice struct {
	InstanceType string `xml:"instanceType"`
	Product      string `xml:"productDescription"`
	Price        string `xml:"spotPrice"`
	Timestamp    string `xml:"timestamp"`
	Zone         string `xml:"availabilityZone"`
	ZoneID       string `xml:"availabilityZoneId"`
}

func (p xmlSpotPrice) key() string { return p.InstanceType + "/" + p.Zone + "/" + p.Timestamp }

// maxSpotHistory bounds how far back prices are returned.
const maxSpotHistory = 72 * time.Hour

func (s *Prices) DescribeSpotPriceHistory(c *wire.Call) (any, error) {
	moments, err := s.spotMoments(c.Params)
	if err != nil {
		return nil, err
	}
	products, filters := c.Params.Strs("ProductDescription"), wire.ReadFilters(c.Params)
	if len(products) > 0 && !slices.Contains(products, wire.Linux) {
		moments = nil
	}
	var found []xmlSpotPrice
	for _, t := range s.Types {
		rows, err := s.spotRows(t, c.Params, filters, moments)
		if err != nil {
			return nil, err
		}
		found = append(found, rows...)
	}
	if c.Params.Bool("DryRun") {
		return nil, wire.DryRun()
	}
	slices.SortFunc(found, func(a, b xmlSpotPrice) int { return strings.Compare(a.key(), b.key()) })
	part, next, err := wire.Page(c, found, xmlSpotPrice.key, wire.PageBounds{Least: 1, Most: 10000, Standard: 1000})
	if err != nil {
		return nil, err
	}
	return struct {
		Prices []xmlSpotPrice `xml:"spotPriceHistorySet>item"`
		Next   string         `xml:"nextToken,omitempty"`
	}{part, next}, nil
}

// spotMoments are the times at which prices changed, from the one in force at StartTime to EndTime.
func (s *Prices) spotMoments(p *wire.Params) ([]time.Time, *wire.Error) {
	start, err := p.Time("StartTime")
	if err != nil {
		return nil, err
	}
	end, err := p.Time("EndTime")
	if err != nil {
		return nil, err
	}
	now := s.Now()
	if end.IsZero() || end.After(now) {
		end = now
	}
	if start.IsZero() || start.Before(end.Add(-maxSpotHistory)) {
		start = end.Add(-maxSpotHistory)
	}
	if start.After(end) {
		start = end
	}
	var out []time.Time
	for at := start.Truncate(catalogue.SpotStep); !at.After(end); at = at.Add(catalogue.SpotStep) {
		out = append(out, at)
	}
	return out, nil
}

func (s *Prices) spotRows(t *catalogue.Type, p *wire.Params, filters []wire.Filter, moments []time.Time) ([]xmlSpotPrice, *wire.Error) {
	asked, zone := p.Strs("InstanceType"), p.Str("AvailabilityZone")
	if !t.Supports("spot") || t.PriceMicroUSD == 0 || len(asked) > 0 && !slices.Contains(asked, t.Name) {
		return nil, nil
	}
	var out []xmlSpotPrice
	for _, z := range s.Region.Zones {
		if !s.Region.Offers(t, z.Name) || !z.HasSpot() || zone != "" && zone != z.Name {
			continue
		}
		for _, at := range moments {
			row := xmlSpotPrice{t.Name, wire.Linux, UsdText(s.Price(t, "spot", z.Name, at)), wire.Stamp(at), z.Name, z.ID}
			ok, err := wire.Matches(filters, nil, row.attributes)
			if err != nil {
				return nil, err
			}
			if ok {
				out = append(out, row)
			}
		}
	}
	return out, nil
}

func (p xmlSpotPrice) attributes(name string) ([]string, bool) {
	value, ok := map[string]string{"instance-type": p.InstanceType, "availability-zone": p.Zone, "availability-zone-id": p.ZoneID,
		"product-description": p.Product, "spot-price": p.Price, "timestamp": p.Timestamp}[name]
	return []string{value}, ok
}
