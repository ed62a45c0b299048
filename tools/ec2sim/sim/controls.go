package sim

import (
	"math"
	"net/http"
	"slices"
	"strconv"
	"strings"

	"millwright/tools/ec2sim/catalogue"
	"millwright/tools/ec2sim/simclient"
)

// The handlers here run under the server's lock.

func (s *Server) controlSettings(r *http.Request) (any, error) {
	switch r.Method {
	case http.MethodGet:
	case http.MethodPatch, http.MethodPut:
		changed := s.settings // a field that is not in the body stays
		if err := decode(r, &changed); err != nil {
			return nil, err
		}
		if changed.Retention == 0 {
			changed.Retention = DefaultSettings().Retention
		}
		s.settings = changed
		s.keep("settings", "settings", s.settings)
		s.notify()
	default:
		return nil, unknownControl(r)
	}
	return s.settings, nil
}

func (s *Server) controlCapacity(r *http.Request) (any, error) {
	rules := []simclient.Capacity{}
	switch r.Method {
	case http.MethodGet:
		return append(rules, s.capacity...), nil
	case http.MethodDelete:
	case http.MethodPut:
		if err := decode(r, &rules); err != nil {
			return nil, err
		}
	case http.MethodPost:
		var rule simclient.Capacity
		if err := decode(r, &rule); err != nil {
			return nil, err
		}
		rules = append(replaced(s.capacity, rule), rule)
	default:
		return nil, unknownControl(r)
	}
	for _, rule := range rules {
		if err := checkRule(rule); err != nil {
			return nil, err
		}
	}
	s.capacity = rules
	s.keep("capacity", "capacity", s.capacity)
	return s.capacity, nil
}

// replaced drops the rule for the same pools.
func replaced(rules []simclient.Capacity, rule simclient.Capacity) []simclient.Capacity {
	return slices.DeleteFunc(slices.Clone(rules), func(old simclient.Capacity) bool {
		return old.InstanceType == rule.InstanceType && old.Zone == rule.Zone && old.CapacityType == rule.CapacityType
	})
}

func checkRule(rule simclient.Capacity) error {
	if rule.Limit < 0 {
		return refuse("InvalidRule", "limit must not be negative")
	}
	if !strings.Contains(rule.InstanceType, "*") && rule.InstanceType != "" && catalogue.Lookup(rule.InstanceType) == nil {
		return refuse("InvalidRule", "the instance type %q does not exist", rule.InstanceType)
	}
	if !slices.Contains([]string{"", "*", "spot", "on-demand"}, rule.CapacityType) {
		return refuse("InvalidRule", "the capacity type %q is neither spot nor on-demand", rule.CapacityType)
	}
	return nil
}

func ruleMatches(rule simclient.Capacity, instanceType, zone, capacityType string) bool {
	return glob(orElse(rule.InstanceType, "*"), instanceType) && glob(orElse(rule.Zone, "*"), zone) &&
		glob(orElse(rule.CapacityType, "*"), capacityType)
}

func (s *Server) controlFaults(r *http.Request, id string) (any, error) {
	switch r.Method {
	case http.MethodGet:
		return append([]*simclient.Fault{}, s.faults...), nil
	case http.MethodPost:
		f := &simclient.Fault{}
		if err := decode(r, f); err != nil {
			return nil, err
		}
		if f.Action == "" || f.Rate < 0 || f.Rate > 1 || f.Count < 0 {
			return nil, refuse("InvalidFault", "a fault needs an action (or *), a rate within 0 and 1 and a count not below 0")
		}
		f.ID = orElse(f.ID, "fault-"+randomHex(4))
		s.faults = append(s.faults, f)
		s.keep("fault", f.ID, f)
		return f, nil
	case http.MethodDelete:
		s.faults = slices.DeleteFunc(s.faults, func(f *simclient.Fault) bool {
			gone := id == "" || f.ID == id
			if gone {
				s.drop("fault", f.ID)
			}
			return gone
		})
		return append([]*simclient.Fault{}, s.faults...), nil
	}
	return nil, unknownControl(r)
}

func (s *Server) controlLimits(r *http.Request) (any, error) {
	limits := []simclient.Limit{}
	switch r.Method {
	case http.MethodGet:
		for _, action := range sortedKeys(s.buckets) {
			limits = append(limits, s.buckets[action].limit)
		}
		return limits, nil
	case http.MethodPut:
		if err := decode(r, &limits); err != nil {
			return nil, err
		}
	case http.MethodDelete:
	default:
		return nil, unknownControl(r)
	}
	s.setLimits(limits)
	s.keep("limits", "limits", limits)
	return limits, nil
}

func (s *Server) setLimits(limits []simclient.Limit) {
	s.buckets = map[string]*bucket{}
	for _, l := range limits {
		s.buckets[l.Action] = &bucket{limit: l, tokens: float64(l.Burst), at: s.now()}
	}
}

func microUSD(usd float64) int64 { return int64(math.Round(usd * 1e6)) }

func (s *Server) controlPrices(r *http.Request) (any, error) {
	switch r.Method {
	case http.MethodGet:
	case http.MethodPut:
		var prices []simclient.Price
		if err := decode(r, &prices); err != nil {
			return nil, err
		}
		for _, p := range prices {
			if catalogue.Lookup(p.InstanceType) == nil || p.CapacityType != "spot" && p.CapacityType != "on-demand" {
				return nil, refuse("InvalidPrice", "%s %q is no priced offering", p.InstanceType, p.CapacityType)
			}
		}
		for _, p := range prices {
			s.prices[priceKey{p.InstanceType, p.CapacityType, p.Zone}] = microUSD(p.USDPerHour)
			s.keep("price", p.InstanceType+"/"+p.CapacityType+"/"+p.Zone, p)
		}
	case http.MethodDelete:
		for k := range s.prices {
			s.drop("price", k.InstanceType+"/"+k.CapacityType+"/"+k.Zone)
		}
		s.prices = map[priceKey]int64{}
	default:
		return nil, unknownControl(r)
	}
	s.products = productCache{}
	return s.priceList(), nil
}

func (s *Server) priceList() []simclient.Price {
	out := []simclient.Price{}
	for k, micro := range s.prices {
		out = append(out, simclient.Price{InstanceType: k.InstanceType, CapacityType: k.CapacityType, Zone: k.Zone,
			USDPerHour: float64(micro) / 1e6})
	}
	slices.SortFunc(out, func(a, b simclient.Price) int {
		return strings.Compare(a.InstanceType+a.CapacityType+a.Zone, b.InstanceType+b.CapacityType+b.Zone)
	})
	return out
}

func (s *Server) controlSubnet(r *http.Request, id string) (any, error) {
	sub := s.network.subnet(id)
	if sub == nil {
		return nil, unknownSubnet(id)
	}
	if r.Method == http.MethodPut {
		var body struct {
			AvailableAddresses int `json:"availableAddresses"`
		}
		if err := decode(r, &body); err != nil {
			return nil, err
		}
		sub.Room = -1
		if body.AvailableAddresses >= 0 {
			sub.Room = body.AvailableAddresses + s.instances.inSubnet(id, s.now())
		}
		s.keep("subnet", id, sub.Room)
	}
	return map[string]any{"id": id, "zone": sub.Zone.Name, "availableAddresses": s.available(sub, s.now())}, nil
}

func (s *Server) controlImages(r *http.Request) (any, error) {
	if r.Method != http.MethodPost {
		return s.imageVersions(), nil
	}
	var body struct {
		Date         string `json:"date"`
		Bottlerocket string `json:"bottlerocket"`
	}
	if err := decode(r, &body); err != nil {
		return nil, err
	}
	if _, err := strconv.Atoi(body.Date); err != nil || len(body.Date) != 8 {
		return nil, refuse("InvalidRelease", "date must be YYYYMMDD")
	}
	body.Bottlerocket = orElse(body.Bottlerocket, "1."+body.Date[2:]+".0")
	s.release(release{body.Date, body.Bottlerocket})
	s.keep("release", body.Date, body.Bottlerocket)
	return s.imageVersions(), nil
}

func (s *Server) controlParameters(r *http.Request) (any, error) {
	var body struct{ Name, Value string }
	if r.Method != http.MethodPut {
		return s.ssm, nil
	}
	if err := decode(r, &body); err != nil {
		return nil, err
	}
	s.ssm[body.Name] = body.Value
	s.keep("parameter", body.Name, body.Value)
	return map[string]string{body.Name: body.Value}, nil
}
