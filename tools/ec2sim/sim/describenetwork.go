package sim

import (
	"slices"
	"strconv"
	"time"
)

type xmlSubnet struct {
	ID        string   `xml:"subnetId"`
	ARN       string   `xml:"subnetArn"`
	State     string   `xml:"state"`
	VPCID     string   `xml:"vpcId"`
	CIDR      string   `xml:"cidrBlock"`
	Available int      `xml:"availableIpAddressCount"`
	Zone      string   `xml:"availabilityZone"`
	ZoneID    string   `xml:"availabilityZoneId"`
	Default   bool     `xml:"defaultForAz"`
	MapPublic bool     `xml:"mapPublicIpOnLaunch"`
	Owner     string   `xml:"ownerId"`
	Tags      []xmlTag `xml:"tagSet>item"`
}

// limit is how many instances the subnet can hold.
func (sub *subnet) limit() int {
	if sub.Room >= 0 {
		return sub.Room
	}
	return sub.size()
}

// available counts the free addresses of a subnet at a time.
func (s *Server) available(sub *subnet, at time.Time) int {
	return max(0, sub.limit()-s.instances.inSubnet(sub.ID, at))
}

func describeSubnets(s *Server, c *call) (any, error) {
	filters, ids, seen := readFilters(c.params), c.params.strs("SubnetId"), s.seen()
	for _, id := range ids {
		if s.network.subnet(id) == nil {
			return nil, unknownSubnet(id)
		}
	}
	var found []*subnet
	for _, sub := range s.network.subnets {
		ok, err := matches(filters, sub.Tags, s.subnetAttributes(sub, seen))
		if err != nil {
			return nil, err
		}
		if ok && (len(ids) == 0 || slices.Contains(ids, sub.ID)) {
			found = append(found, sub)
		}
	}
	if c.params.bool("DryRun") {
		return nil, dryRun()
	}
	part, next, err := page(c, found, func(sub *subnet) string { return sub.ID }, pageBounds{5, 1000, 1000})
	if err != nil {
		return nil, err
	}
	answer := struct {
		Subnets []xmlSubnet `xml:"subnetSet>item"`
		Next    string      `xml:"nextToken,omitempty"`
	}{Next: next}
	for _, sub := range part {
		arn := "arn:aws:ec2:" + s.region.Name + ":" + s.cfg.AccountID + ":subnet/" + sub.ID
		answer.Subnets = append(answer.Subnets, xmlSubnet{sub.ID, arn, "available", s.network.vpcID, sub.Prefix.String(),
			s.available(sub, seen), sub.Zone.Name, sub.Zone.ID, false, sub.Public, s.cfg.AccountID, xmlTags(sub.Tags)})
	}
	return answer, nil
}

func (s *Server) subnetAttributes(sub *subnet, at time.Time) attributes {
	return func(name string) ([]string, bool) {
		switch name {
		case "subnet-id":
			return []string{sub.ID}, true
		case "vpc-id":
			return []string{s.network.vpcID}, true
		case "availability-zone", "availabilityZone":
			return []string{sub.Zone.Name}, true
		case "availability-zone-id", "availabilityZoneId":
			return []string{sub.Zone.ID}, true
		case "cidr-block", "cidr", "cidrBlock":
			return []string{sub.Prefix.String()}, true
		case "state":
			return []string{"available"}, true
		case "owner-id":
			return []string{s.cfg.AccountID}, true
		case "map-public-ip-on-launch":
			return []string{boolText(sub.Public)}, true
		case "default-for-az", "defaultForAz":
			return []string{"false"}, true
		case "available-ip-address-count":
			return []string{strconv.Itoa(s.available(sub, at))}, true
		}
		return nil, false
	}
}

type xmlGroup struct {
	Owner       string   `xml:"ownerId"`
	ID          string   `xml:"groupId"`
	Name        string   `xml:"groupName"`
	Description string   `xml:"groupDescription"`
	VPCID       string   `xml:"vpcId"`
	Tags        []xmlTag `xml:"tagSet>item"`
}

func describeSecurityGroups(s *Server, c *call) (any, error) {
	filters, ids, names := readFilters(c.params), c.params.strs("GroupId"), c.params.strs("GroupName")
	for _, id := range append(slices.Clone(ids), names...) {
		if s.network.group(id) == nil {
			return nil, refuse("InvalidGroup.NotFound", "The security group '%s' does not exist", id)
		}
	}
	var found []*securityGroup
	for _, g := range s.network.groups {
		ok, err := matches(filters, g.Tags, s.groupAttributes(g))
		if err != nil {
			return nil, err
		}
		named := len(ids)+len(names) == 0 || slices.Contains(ids, g.ID) || slices.Contains(names, g.Name)
		if ok && named {
			found = append(found, g)
		}
	}
	if c.params.bool("DryRun") {
		return nil, dryRun()
	}
	part, next, err := page(c, found, func(g *securityGroup) string { return g.ID }, pageBounds{5, 1000, 1000})
	if err != nil {
		return nil, err
	}
	answer := struct {
		Groups []xmlGroup `xml:"securityGroupInfo>item"`
		Next   string     `xml:"nextToken,omitempty"`
	}{Next: next}
	for _, g := range part {
		answer.Groups = append(answer.Groups, xmlGroup{s.cfg.AccountID, g.ID, g.Name, g.Description, s.network.vpcID, xmlTags(g.Tags)})
	}
	return answer, nil
}

func (s *Server) groupAttributes(g *securityGroup) attributes {
	return func(name string) ([]string, bool) {
		switch name {
		case "group-id":
			return []string{g.ID}, true
		case "group-name":
			return []string{g.Name}, true
		case "description":
			return []string{g.Description}, true
		case "vpc-id":
			return []string{s.network.vpcID}, true
		case "owner-id":
			return []string{s.cfg.AccountID}, true
		}
		return nil, false
	}
}

type xmlZone struct {
	Name   string `xml:"zoneName"`
	State  string `xml:"zoneState"`
	Region string `xml:"regionName"`
	ID     string `xml:"zoneId"`
	Type   string `xml:"zoneType"`
	Group  string `xml:"groupName"`
	OptIn  string `xml:"optInStatus"`
	Border string `xml:"networkBorderGroup"`
}

func describeAvailabilityZones(s *Server, c *call) (any, error) {
	filters, names, ids := readFilters(c.params), c.params.strs("ZoneName"), c.params.strs("ZoneId")
	for _, name := range append(slices.Clone(names), ids...) {
		if _, ok := s.region.Zone(name); !ok {
			return nil, invalidValue("Invalid availability zone: [%s]", name)
		}
	}
	answer := struct {
		Zones []xmlZone `xml:"availabilityZoneInfo>item"`
	}{}
	for _, z := range s.region.Zones {
		x := xmlZone{z.Name, "available", s.region.Name, z.ID, "availability-zone", s.region.Name + "-zg-1", "opt-in-not-required", s.region.Name}
		ok, err := matches(filters, nil, x.attributes)
		if err != nil {
			return nil, err
		}
		named := len(names)+len(ids) == 0 || slices.Contains(names, z.Name) || slices.Contains(ids, z.ID)
		if ok && named {
			answer.Zones = append(answer.Zones, x)
		}
	}
	if c.params.bool("DryRun") {
		return nil, dryRun()
	}
	return answer, nil
}

func (z *xmlZone) attributes(name string) ([]string, bool) {
	value, ok := map[string]string{"zone-name": z.Name, "zone-id": z.ID, "zone-type": z.Type, "state": z.State,
		"region-name": z.Region, "group-name": z.Group, "opt-in-status": z.OptIn}[name]
	return []string{value}, ok
}
