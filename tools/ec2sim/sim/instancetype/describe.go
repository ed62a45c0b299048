// Package instancetype describes the instance types of the region and where they are offered.
package instancetype

import (
	"cmp"
	"slices"
	"strconv"
	"strings"

	"millwright/tools/ec2sim/catalogue"
	"millwright/tools/ec2sim/sim/account"
	"millwright/tools/ec2sim/sim/wire"
)

// Types are the instance types that the region offers.
type Types struct {
	*account.Account
	// Outposts are the instance types of each Outpost, by ARN.
	Outposts map[string][]string
}

// New describes the types of the account's region and its Outposts.
func New(a *account.Account, outposts map[string][]string) *Types { return &Types{a, outposts} }

type xmlTypes struct {
	Types []xmlType `xml:"instanceTypeSet>item"`
	Next  string    `xml:"nextToken,omitempty"`
}

func (s *Types) DescribeInstanceTypes(c *wire.Call) (any, error) {
	asked := c.Params.Strs("InstanceType")
	if len(asked) > 100 {
		return nil, wire.InvalidValue("At most 100 instance types may be named.")
	}
	if len(asked) > 0 && c.Params.Has("MaxResults") {
		return nil, wire.Refuse("InvalidParameterCombination", "The parameter instanceTypes cannot be used with the parameter maxResults")
	}
	found, err := s.selectTypes(wire.ReadFilters(c.Params), asked)
	if err != nil {
		return nil, err
	}
	if c.Params.Bool("DryRun") {
		return nil, wire.DryRun()
	}
	part, next, err := wire.Page(c, found, typeName, wire.PageBounds{Least: 5, Most: 100, Standard: 100})
	if err != nil {
		return nil, err
	}
	answer := xmlTypes{Next: next}
	for _, t := range part {
		answer.Types = append(answer.Types, newXMLType(t))
	}
	return answer, nil
}

func typeName(t *catalogue.Type) string { return t.Name }

// selectTypes finds the region's types by name and filters; unknown names refuse the call.
func (s *Types) selectTypes(filters []wire.Filter, asked []string) ([]*catalogue.Type, *wire.Error) {
	var unknown []string
	for _, name := range asked {
		if !slices.ContainsFunc(s.Types, func(t *catalogue.Type) bool { return t.Name == name }) {
			unknown = append(unknown, name)
		}
	}
	if len(unknown) > 0 {
		return nil, wire.Refuse("InvalidInstanceType", "The following supplied instance types do not exist: [%s]", strings.Join(unknown, ", "))
	}
	var found []*catalogue.Type
	for _, t := range s.Types {
		ok, err := wire.Matches(filters, nil, typeAttributes(t))
		if err != nil {
			return nil, err
		}
		if ok && (len(asked) == 0 || slices.Contains(asked, t.Name)) {
			found = append(found, t)
		}
	}
	return found, nil
}

func typeAttributes(t *catalogue.Type) wire.Attributes {
	return func(name string) ([]string, bool) {
		switch name {
		case "instance-type":
			return []string{t.Name}, true
		case "supported-virtualization-type":
			return t.VirtualizationTypes, true
		case "processor-info.supported-architecture":
			return t.Architectures, true
		case "processor-info.supported-features":
			return t.Features, true
		case "bare-metal":
			return []string{strconv.FormatBool(t.BareMetal)}, true
		case "burstable-performance-supported":
			return []string{strconv.FormatBool(t.Burstable)}, true
		case "current-generation":
			return []string{strconv.FormatBool(t.CurrentGeneration())}, true
		case "hypervisor":
			if t.Hypervisor == "" {
				return nil, true
			}
			return []string{t.Hypervisor}, true
		case "supported-usage-class":
			return t.UsageClasses, true
		case "vcpu-info.default-vcpus":
			return []string{strconv.Itoa(t.VCPUs)}, true
		case "memory-info.size-in-mib":
			return []string{strconv.FormatInt(t.MemoryMiB, 10)}, true
		case "instance-storage-supported":
			return []string{strconv.FormatBool(t.StorageGB > 0)}, true
		case "network-info.efa-supported":
			return []string{strconv.FormatBool(t.EFAs > 0)}, true
		case "nitro-enclaves-support":
			return []string{map[bool]string{true: "supported", false: "unsupported"}[t.NitroEnclaves]}, true
		}
		return nil, false
	}
}

type xmlOffering struct {
	InstanceType string `xml:"instanceType"`
	LocationType string `xml:"locationType"`
	Location     string `xml:"location"`
}

func (s *Types) DescribeInstanceTypeOfferings(c *wire.Call) (any, error) {
	kind := cmp.Or(c.Params.Str("LocationType"), "region")
	filters := wire.ReadFilters(c.Params)
	var found []xmlOffering
	for _, t := range s.Types {
		for _, location := range s.locations(kind, t) {
			ok, err := wire.Matches(filters, nil, offeringAttributes(t.Name, location))
			if err != nil {
				return nil, err
			}
			if ok {
				found = append(found, xmlOffering{t.Name, kind, location})
			}
		}
	}
	if !slices.Contains([]string{"region", "availability-zone", "availability-zone-id", "outpost"}, kind) {
		return nil, wire.InvalidValue("Value (%s) for parameter locationType is invalid.", kind)
	}
	if c.Params.Bool("DryRun") {
		return nil, wire.DryRun()
	}
	part, next, err := wire.Page(c, found, func(o xmlOffering) string { return o.InstanceType + "/" + o.Location }, wire.PageBounds{Least: 5, Most: 1000, Standard: 1000})
	if err != nil {
		return nil, err
	}
	return struct {
		Offerings []xmlOffering `xml:"instanceTypeOfferingSet>item"`
		Next      string        `xml:"nextToken,omitempty"`
	}{part, next}, nil
}

func (s *Types) locations(kind string, t *catalogue.Type) []string {
	if kind == "region" {
		return []string{s.Region.Name}
	}
	var out []string
	if kind == "outpost" {
		for arn, types := range s.Outposts {
			if slices.Contains(types, t.Name) {
				out = append(out, arn)
			}
		}
		return out
	}
	for _, z := range s.Region.Zones {
		if s.Region.Offers(t, z.Name) {
			out = append(out, map[string]string{"availability-zone": z.Name, "availability-zone-id": z.ID}[kind])
		}
	}
	return out
}

func offeringAttributes(name, location string) wire.Attributes {
	return func(filter string) ([]string, bool) {
		switch filter {
		case "instance-type":
			return []string{name}, true
		case "location":
			return []string{location}, true
		}
		return nil, false
	}
}
