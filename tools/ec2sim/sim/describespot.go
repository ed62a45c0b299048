package sim

import (
	"slices"
	"strconv"
	"time"

	"millwright/tools/ec2sim/catalogue"
)

// priceKey of an override; Zone "" holds for all zones.
type priceKey struct{ InstanceType, CapacityType, Zone string }

// price is what an hour costs in micro USD: an override if there is one, else the catalogue or the model.
func (s *Server) price(t *catalogue.Type, capacityType, zone string, at time.Time) int64 {
	for _, z := range []string{zone, ""} {
		if p, ok := s.prices[priceKey{t.Name, capacityType, z}]; ok {
			return p
		}
	}
	if capacityType == "spot" {
		return s.spot.Price(t, zone, at)
	}
	return s.region.OnDemand(t)
}

// usdText writes micro USD as EC2 writes prices.
func usdText(micro int64) string { return strconv.FormatFloat(float64(micro)/1e6, 'f', 6, 64) }

type xmlSpotPrice struct {
	InstanceType string `xml:"instanceType"`
	Product      string `xml:"productDescription"`
	Price        string `xml:"spotPrice"`
	Timestamp    string `xml:"timestamp"`
	Zone         string `xml:"availabilityZone"`
	ZoneID       string `xml:"availabilityZoneId"`
}

func (p xmlSpotPrice) key() string { return p.InstanceType + "/" + p.Zone + "/" + p.Timestamp }

const linux = "Linux/UNIX"

// maxSpotHistory bounds how far back prices are told.
const maxSpotHistory = 72 * time.Hour

func describeSpotPriceHistory(s *Server, c *call) (any, error) {
	moments, err := s.spotMoments(c.params)
	if err != nil {
		return nil, err
	}
	products, filters := c.params.strs("ProductDescription"), readFilters(c.params)
	if len(products) > 0 && !slices.Contains(products, linux) {
		moments = nil
	}
	var found []xmlSpotPrice
	for _, t := range s.types {
		rows, err := s.spotRows(t, c.params, filters, moments)
		if err != nil {
			return nil, err
		}
		found = append(found, rows...)
	}
	if c.params.bool("DryRun") {
		return nil, dryRun()
	}
	slices.SortFunc(found, func(a, b xmlSpotPrice) int { return compareText(a.key(), b.key()) })
	part, next, err := page(c, found, xmlSpotPrice.key, pageBounds{1, 10000, 1000})
	if err != nil {
		return nil, err
	}
	return struct {
		Prices []xmlSpotPrice `xml:"spotPriceHistorySet>item"`
		Next   string         `xml:"nextToken,omitempty"`
	}{part, next}, nil
}

func compareText(a, b string) int {
	switch {
	case a < b:
		return -1
	case a > b:
		return 1
	}
	return 0
}

// spotMoments are the times at which prices changed, from the one in force at StartTime to EndTime.
func (s *Server) spotMoments(p *params) ([]time.Time, *Error) {
	start, err := p.time("StartTime")
	if err != nil {
		return nil, err
	}
	end, err := p.time("EndTime")
	if err != nil {
		return nil, err
	}
	now := s.now()
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

func (s *Server) spotRows(t *catalogue.Type, p *params, filters []filter, moments []time.Time) ([]xmlSpotPrice, *Error) {
	asked, zone := p.strs("InstanceType"), p.str("AvailabilityZone")
	if !t.Supports("spot") || t.PriceMicroUSD == 0 || len(asked) > 0 && !slices.Contains(asked, t.Name) {
		return nil, nil
	}
	var out []xmlSpotPrice
	for _, z := range s.region.Zones {
		if !s.region.Offers(t, z.Name) || zone != "" && zone != z.Name {
			continue
		}
		for _, at := range moments {
			row := xmlSpotPrice{t.Name, linux, usdText(s.price(t, "spot", z.Name, at)), stamp(at), z.Name, z.ID}
			ok, err := matches(filters, nil, row.attributes)
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
