package pricing

import (
	"encoding/json"
	"math"
	"net/http"
	"slices"
	"strings"

	"millwright/tools/ec2sim/catalogue"
	"millwright/tools/ec2sim/sim/account"
	"millwright/tools/ec2sim/sim/wire"
	"millwright/tools/ec2sim/simclient"
)

func microUSD(usd float64) int64 { return int64(math.Round(usd * 1e6)) }

// Control overrides prices over the control interface.
func (s *Prices) Control(r *http.Request) (any, error) {
	switch r.Method {
	case http.MethodGet:
	case http.MethodPut:
		var prices []simclient.Price
		if err := wire.DecodeControl(r, &prices); err != nil {
			return nil, err
		}
		for _, p := range prices {
			if catalogue.Lookup(p.InstanceType) == nil || p.CapacityType != "spot" && p.CapacityType != "on-demand" {
				return nil, wire.Refuse("InvalidPrice", "%s %q is no priced offering", p.InstanceType, p.CapacityType)
			}
		}
		for _, p := range prices {
			s.overrides[priceKey{p.InstanceType, p.CapacityType, p.Zone}] = microUSD(p.USDPerHour)
			s.Keep("price", p.InstanceType+"/"+p.CapacityType+"/"+p.Zone, p)
		}
	case http.MethodDelete:
		for k := range s.overrides {
			s.Drop("price", k.InstanceType+"/"+k.CapacityType+"/"+k.Zone)
		}
		s.overrides = map[priceKey]int64{}
	default:
		return nil, wire.UnknownControl(r)
	}
	s.products = productCache{}
	return s.priceList(), nil
}

func (s *Prices) priceList() []simclient.Price {
	out := []simclient.Price{}
	for k, micro := range s.overrides {
		out = append(out, simclient.Price{InstanceType: k.InstanceType, CapacityType: k.CapacityType, Zone: k.Zone,
			USDPerHour: float64(micro) / 1e6})
	}
	slices.SortFunc(out, func(a, b simclient.Price) int {
		return strings.Compare(a.InstanceType+a.CapacityType+a.Zone, b.InstanceType+b.CapacityType+b.Zone)
	})
	return out
}

// LoadPrice puts an overridden price of the journal back.
func (s *Prices) LoadPrice(l account.Entity) error {
	var p simclient.Price
	err := json.Unmarshal(l.Value, &p)
	s.overrides[priceKey{p.InstanceType, p.CapacityType, p.Zone}] = microUSD(p.USDPerHour)
	return err
}
