package instance

import (
	"cmp"
	"encoding/json"
	"net/http"
	"slices"
	"strings"

	"millwright/tools/ec2sim/catalogue"
	"millwright/tools/ec2sim/sim/account"
	"millwright/tools/ec2sim/sim/wire"
	"millwright/tools/ec2sim/simclient"
)

// ControlCapacity sets how much capacity the pools have, over the control interface.
func (s *Service) ControlCapacity(r *http.Request) (any, error) {
	rules := []simclient.Capacity{}
	switch r.Method {
	case http.MethodGet:
		return append(rules, s.capacity...), nil
	case http.MethodDelete:
	case http.MethodPut:
		if err := wire.DecodeControl(r, &rules); err != nil {
			return nil, err
		}
	case http.MethodPost:
		var rule simclient.Capacity
		if err := wire.DecodeControl(r, &rule); err != nil {
			return nil, err
		}
		rules = append(replaced(s.capacity, rule), rule)
	default:
		return nil, wire.UnknownControl(r)
	}
	for _, rule := range rules {
		if err := checkRule(rule); err != nil {
			return nil, err
		}
	}
	s.capacity = rules
	s.Keep("capacity", "capacity", s.capacity)
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
		return wire.Refuse("InvalidRule", "limit must not be negative")
	}
	if !strings.Contains(rule.InstanceType, "*") && rule.InstanceType != "" && catalogue.Lookup(rule.InstanceType) == nil {
		return wire.Refuse("InvalidRule", "the instance type %q does not exist", rule.InstanceType)
	}
	if !slices.Contains([]string{"", "*", "spot", "on-demand"}, rule.CapacityType) {
		return wire.Refuse("InvalidRule", "the capacity type %q is neither spot nor on-demand", rule.CapacityType)
	}
	return nil
}

func ruleMatches(rule simclient.Capacity, p poolUse) bool {
	return wire.Glob(cmp.Or(rule.InstanceType, "*"), p.instanceType) && wire.Glob(cmp.Or(rule.Zone, "*"), p.zone) &&
		wire.Glob(cmp.Or(rule.CapacityType, "*"), p.capacityType) && (rule.PlacementGroup == "" || rule.PlacementGroup == p.group)
}

func (s *Service) capacityError(want poolUse, u *usage) *wire.Error {
	for _, rule := range s.capacity {
		if !ruleMatches(rule, want) {
			continue
		}
		used := 0
		for _, p := range u.pools {
			if ruleMatches(rule, p) {
				used++
			}
		}
		if used >= rule.Limit {
			return wire.Refuse(cmp.Or(rule.Code, "InsufficientInstanceCapacity"), "%s", cmp.Or(rule.Message, noCapacityText(want.instanceType, want.zone, want.capacityType)))
		}
	}
	return nil
}

func noCapacityText(name, zone, capacityType string) string {
	if capacityType == "spot" {
		return "There is no Spot capacity available that matches your request."
	}
	return "We currently do not have sufficient " + name + " capacity in the Availability Zone you requested (" + zone +
		"). Our system will be working on provisioning additional capacity."
}

// LoadCapacity puts the capacity rules of the journal back.
func (s *Service) LoadCapacity(l account.Entity) error { return json.Unmarshal(l.Value, &s.capacity) }
