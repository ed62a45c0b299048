// Package pricing answers the Pricing API and the history of spot prices.
package pricing

import (
	"encoding/json"
	"strconv"
	"strings"

	"millwright/tools/ec2sim/catalogue"
	"millwright/tools/ec2sim/sim/account"
	"millwright/tools/ec2sim/sim/wire"
)

// productCache is the last filtered product list: paging asks for the same list again and again.
type productCache struct {
	key  string
	list []string
}

// Prices of the region's offerings: those of the catalogue and of the spot model, unless overridden.
type Prices struct {
	*account.Account
	overrides map[priceKey]int64
	products  productCache
}

// New returns the catalogue's prices.
func New(a *account.Account) *Prices { return &Prices{Account: a, overrides: map[priceKey]int64{}} }

type productFilter struct{ Type, Field, Value string }

func (s *Prices) GetProducts(c *wire.Call) (any, error) {
	var input struct {
		ServiceCode string
		Filters     []productFilter
		MaxResults  int
		NextToken   string
	}
	if err := wire.ReadJSON(c, &input); err != nil {
		return nil, err
	}
	if input.ServiceCode != "AmazonEC2" {
		return nil, wire.Refuse("InvalidParameterException", "The service code %q is not known.", input.ServiceCode)
	}
	if input.MaxResults < 0 || input.MaxResults > 100 {
		return nil, wire.Refuse("InvalidParameterException", "MaxResults must be between 1 and 100.")
	}
	for _, f := range input.Filters {
		if f.Type != "TERM_MATCH" {
			return nil, wire.Refuse("InvalidParameterException", "The filter type %q is not simulated.", f.Type)
		}
	}
	list := s.productList(input.Filters)
	start, err := productStart(input.NextToken, len(list))
	if err != nil {
		return nil, err
	}
	end := len(list)
	if input.MaxResults == 0 {
		input.MaxResults = 100
	}
	end = min(end, start+input.MaxResults)
	answer := map[string]any{"FormatVersion": "aws_v1", "PriceList": list[start:end]}
	if end < len(list) {
		answer["NextToken"] = wire.PageToken(strconv.Itoa(end))
	}
	return answer, nil
}

func productStart(token string, length int) (int, error) {
	if token == "" {
		return 0, nil
	}
	text, err := wire.ReadPageToken(token)
	start, convErr := strconv.Atoi(text)
	if err != nil || convErr != nil || start > length {
		return 0, wire.Refuse("InvalidNextTokenException", "The pagination token is invalid.")
	}
	return start, nil
}

func (s *Prices) productList(filters []productFilter) []string {
	keyBytes, _ := json.Marshal(filters)
	if key := string(keyBytes); s.products.key != key || s.products.list == nil {
		s.products = productCache{key: key, list: s.buildProducts(filters)}
	}
	return s.products.list
}

// buildProducts lists Linux on-demand products; bare metal counts as dedicated.
func (s *Prices) buildProducts(filters []productFilter) []string {
	region, out := s.priceRegion(filters), []string{}
	for _, t := range region.Types() {
		price := region.OnDemand(t)
		if region.Name == s.Region.Name {
			price = s.Price(t, "on-demand", "", s.Now())
		}
		attributes := productAttributes(t, region.Name)
		if price > 0 && productMatches(filters, attributes) {
			out = append(out, product(t, attributes, price))
		}
	}
	return out
}

func (s *Prices) priceRegion(filters []productFilter) *catalogue.Region {
	for _, f := range filters {
		if f.Field == "regionCode" && f.Value != s.Region.Name {
			return catalogue.NewRegion(f.Value, "")
		}
	}
	return s.Region
}

func productAttributes(t *catalogue.Type, region string) map[string]string {
	a := map[string]string{
		"serviceCode": "AmazonEC2", "servicecode": "AmazonEC2", "regionCode": region, "instanceType": t.Name, "tenancy": "Shared",
		"productFamily": "Compute Instance", "operatingSystem": "Linux", "preInstalledSw": "NA", "capacitystatus": "Used",
		"marketoption": "OnDemand", "vcpu": strconv.Itoa(t.VCPUs), "memory": strconv.FormatInt(t.MemoryMiB/1024, 10) + " GiB",
	}
	if t.BareMetal {
		a["tenancy"], a["productFamily"] = "Dedicated", "Compute Instance (bare metal)"
	}
	return a
}

func productMatches(filters []productFilter, attributes map[string]string) bool {
	for _, f := range filters {
		if value, ok := attributes[f.Field]; !ok || !strings.EqualFold(value, f.Value) {
			return false
		}
	}
	return true
}

// product is one entry of the price list, a JSON document as text.
func product(t *catalogue.Type, attributes map[string]string, price int64) string {
	sku := strings.ToUpper(wire.ShortHash(t.Name + attributes["regionCode"]))
	offer := sku + ".JRTCKXETXF"
	rate := offer + ".6YS6EN2CT7"
	data, _ := json.Marshal(map[string]any{
		"serviceCode": "AmazonEC2",
		"product":     map[string]any{"productFamily": attributes["productFamily"], "sku": sku, "attributes": attributes},
		"terms": map[string]any{"OnDemand": map[string]any{offer: map[string]any{"sku": sku, "priceDimensions": map[string]any{
			rate: map[string]any{"unit": "Hrs", "rateCode": rate, "pricePerUnit": map[string]string{"USD": UsdText(price) + "0000"}},
		}}}},
	})
	return string(data)
}
