package sim

import (
	"slices"
	"strconv"
	"strings"

	"millwright/tools/ec2sim/catalogue"
)

type xmlTypes struct {
	Types []xmlType `xml:"instanceTypeSet>item"`
	Next  string    `xml:"nextToken,omitempty"`
}

func describeInstanceTypes(s *Server, c *call) (any, error) {
	asked := c.params.strs("InstanceType")
	if len(asked) > 100 {
		return nil, invalidValue("At most 100 instance types may be named.")
	}
	if len(asked) > 0 && c.params.has("MaxResults") {
		return nil, refuse("InvalidParameterCombination", "The parameter instanceTypes cannot be used with the parameter maxResults")
	}
	found, err := s.selectTypes(readFilters(c.params), asked)
	if err != nil {
		return nil, err
	}
	if c.params.bool("DryRun") {
		return nil, dryRun()
	}
	part, next, err := page(c, found, typeName, pageBounds{5, 100, 100})
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
func (s *Server) selectTypes(filters []filter, asked []string) ([]*catalogue.Type, *Error) {
	var unknown []string
	for _, name := range asked {
		if !slices.ContainsFunc(s.types, func(t *catalogue.Type) bool { return t.Name == name }) {
			unknown = append(unknown, name)
		}
	}
	if len(unknown) > 0 {
		return nil, refuse("InvalidInstanceType", "The following supplied instance types do not exist: [%s]", strings.Join(unknown, ", "))
	}
	var found []*catalogue.Type
	for _, t := range s.types {
		ok, err := matches(filters, nil, typeAttributes(t))
		if err != nil {
			return nil, err
		}
		if ok && (len(asked) == 0 || slices.Contains(asked, t.Name)) {
			found = append(found, t)
		}
	}
	return found, nil
}

func typeAttributes(t *catalogue.Type) attributes {
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
			return []string{boolText(t.BareMetal)}, true
		case "burstable-performance-supported":
			return []string{boolText(t.Burstable)}, true
		case "current-generation":
			return []string{boolText(t.CurrentGeneration())}, true
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
			return []string{boolText(t.StorageGB > 0)}, true
		case "network-info.efa-supported":
			return []string{boolText(t.EFAs > 0)}, true
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

func describeInstanceTypeOfferings(s *Server, c *call) (any, error) {
	kind := orElse(c.params.str("LocationType"), "region")
	filters := readFilters(c.params)
	var found []xmlOffering
	for _, t := range s.types {
		for _, location := range s.locations(kind, t) {
			ok, err := matches(filters, nil, offeringAttributes(t.Name, location))
			if err != nil {
				return nil, err
			}
			if ok {
				found = append(found, xmlOffering{t.Name, kind, location})
			}
		}
	}
	if !slices.Contains([]string{"region", "availability-zone", "availability-zone-id"}, kind) {
		return nil, invalidValue("Value (%s) for parameter locationType is invalid.", kind)
	}
	if c.params.bool("DryRun") {
		return nil, dryRun()
	}
	part, next, err := page(c, found, func(o xmlOffering) string { return o.InstanceType + "/" + o.Location }, pageBounds{5, 1000, 1000})
	if err != nil {
		return nil, err
	}
	return struct {
		Offerings []xmlOffering `xml:"instanceTypeOfferingSet>item"`
		Next      string        `xml:"nextToken,omitempty"`
	}{part, next}, nil
}

func (s *Server) locations(kind string, t *catalogue.Type) []string {
	if kind == "region" {
		return []string{s.region.Name}
	}
	var out []string
	for _, z := range s.region.Zones {
		if s.region.Offers(t, z.Name) {
			out = append(out, map[string]string{"availability-zone": z.Name, "availability-zone-id": z.ID}[kind])
		}
	}
	return out
}

func offeringAttributes(name, location string) attributes {
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
