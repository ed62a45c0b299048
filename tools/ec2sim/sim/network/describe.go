package network

import (
	"slices"
	"strconv"
	"time"

	"millwright/tools/ec2sim/catalogue"
	"millwright/tools/ec2sim/sim/tag"
	"millwright/tools/ec2sim/sim/wire"
)

type xmlSubnet struct {
	ID        string    `xml:"subnetId"`
	ARN       string    `xml:"subnetArn"`
	State     string    `xml:"state"`
	VPCID     string    `xml:"vpcId"`
	CIDR      string    `xml:"cidrBlock"`
	Available int       `xml:"availableIpAddressCount"`
	Zone      string    `xml:"availabilityZone"`
	ZoneID    string    `xml:"availabilityZoneId"`
	Default   bool      `xml:"defaultForAz"`
	MapPublic bool      `xml:"mapPublicIpOnLaunch"`
	Owner     string    `xml:"ownerId"`
	Outpost   string    `xml:"outpostArn,omitempty"`
	Tags      []tag.XML `xml:"tagSet>item"`
}

// Limit is how many instances the subnet can hold.
func (sub *Subnet) Limit() int {
	if sub.Room >= 0 {
		return sub.Room
	}
	return sub.size()
}

// available counts the free addresses of a subnet at a time.
func (s *VPC) available(sub *Subnet, at time.Time) int {
	return max(0, sub.Limit()-s.Occupied(sub.ID, at))
}

func (s *VPC) DescribeSubnets(c *wire.Call) (any, error) {
	filters, ids, seen := wire.ReadFilters(c.Params), c.Params.Strs("SubnetId"), s.Seen()
	for _, id := range ids {
		if s.Subnet(id) == nil {
			return nil, UnknownSubnet(id)
		}
	}
	var found []*Subnet
	for _, sub := range s.Subnets {
		ok, err := wire.Matches(filters, sub.Tags, s.subnetAttributes(sub, seen))
		if err != nil {
			return nil, err
		}
		if ok && (len(ids) == 0 || slices.Contains(ids, sub.ID)) {
			found = append(found, sub)
		}
	}
	if c.Params.Bool("DryRun") {
		return nil, wire.DryRun()
	}
	part, next, err := wire.Page(c, found, func(sub *Subnet) string { return sub.ID }, wire.PageBounds{Least: 5, Most: 1000, Standard: 1000})
	if err != nil {
		return nil, err
	}
	answer := struct {
		Subnets []xmlSubnet `xml:"subnetSet>item"`
		Next    string      `xml:"nextToken,omitempty"`
	}{Next: next}
	for _, sub := range part {
		arn := "arn:aws:ec2:" + s.Region.Name + ":" + s.Cfg.AccountID + ":subnet/" + sub.ID
		answer.Subnets = append(answer.Subnets, xmlSubnet{sub.ID, arn, "available", s.VPCID, sub.Prefix.String(),
			s.available(sub, seen), sub.Zone.Name, sub.Zone.ID, false, sub.Public, s.Cfg.AccountID, sub.OutpostARN, tag.List(sub.Tags)})
	}
	return answer, nil
}

func (s *VPC) subnetAttributes(sub *Subnet, at time.Time) wire.Attributes {
	return func(name string) ([]string, bool) {
		switch name {
		case "subnet-id":
			return []string{sub.ID}, true
		case "outpost-arn":
			if sub.OutpostARN == "" {
				return nil, true
			}
			return []string{sub.OutpostARN}, true
		case "vpc-id":
			return []string{s.VPCID}, true
		case "availability-zone", "availabilityZone":
			return []string{sub.Zone.Name}, true
		case "availability-zone-id", "availabilityZoneId":
			return []string{sub.Zone.ID}, true
		case "cidr-block", "cidr", "cidrBlock":
			return []string{sub.Prefix.String()}, true
		case "state":
			return []string{"available"}, true
		case "owner-id":
			return []string{s.Cfg.AccountID}, true
		case "map-public-ip-on-launch":
			return []string{strconv.FormatBool(sub.Public)}, true
		case "default-for-az", "defaultForAz":
			return []string{"false"}, true
		case "available-ip-address-count":
			return []string{strconv.Itoa(s.available(sub, at))}, true
		}
		return nil, false
	}
}

type xmlGroup struct {
	Owner       string    `xml:"ownerId"`
	ID          string    `xml:"groupId"`
	Name        string    `xml:"groupName"`
	Description string    `xml:"groupDescription"`
	VPCID       string    `xml:"vpcId"`
	Tags        []tag.XML `xml:"tagSet>item"`
}

func (s *VPC) DescribeSecurityGroups(c *wire.Call) (any, error) {
	filters, ids, names := wire.ReadFilters(c.Params), c.Params.Strs("GroupId"), c.Params.Strs("GroupName")
	for _, id := range append(slices.Clone(ids), names...) {
		if s.Group(id) == nil {
			return nil, wire.Refuse("InvalidGroup.NotFound", "The security group '%s' does not exist", id)
		}
	}
	var found []*SecurityGroup
	for _, g := range s.Groups {
		ok, err := wire.Matches(filters, g.Tags, s.groupAttributes(g))
		if err != nil {
			return nil, err
		}
		named := len(ids)+len(names) == 0 || slices.Contains(ids, g.ID) || slices.Contains(names, g.Name)
		if ok && named {
			found = append(found, g)
		}
	}
	if c.Params.Bool("DryRun") {
		return nil, wire.DryRun()
	}
	part, next, err := wire.Page(c, found, func(g *SecurityGroup) string { return g.ID }, wire.PageBounds{Least: 5, Most: 1000, Standard: 1000})
	if err != nil {
		return nil, err
	}
	answer := struct {
		Groups []xmlGroup `xml:"securityGroupInfo>item"`
		Next   string     `xml:"nextToken,omitempty"`
	}{Next: next}
	for _, g := range part {
		answer.Groups = append(answer.Groups, xmlGroup{s.Cfg.AccountID, g.ID, g.Name, g.Description, s.VPCID, tag.List(g.Tags)})
	}
	return answer, nil
}

func (s *VPC) groupAttributes(g *SecurityGroup) wire.Attributes {
	return func(name string) ([]string, bool) {
		switch name {
		case "group-id":
			return []string{g.ID}, true
		case "group-name":
			return []string{g.Name}, true
		case "description":
			return []string{g.Description}, true
		case "vpc-id":
			return []string{s.VPCID}, true
		case "owner-id":
			return []string{s.Cfg.AccountID}, true
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
	Parent string `xml:"parentZoneName,omitempty"`
}

func (s *VPC) DescribeAvailabilityZones(c *wire.Call) (any, error) {
	filters, names, ids := wire.ReadFilters(c.Params), c.Params.Strs("ZoneName"), c.Params.Strs("ZoneId")
	zones := s.Region.Zones
	if c.Params.Bool("AllAvailabilityZones") {
		zones = append(slices.Clone(zones), slices.DeleteFunc(catalogue.EdgeZones(s.Region.Name), func(z catalogue.Zone) bool { return slices.Contains(zones, z) })...)
	}
	for _, name := range append(slices.Clone(names), ids...) {
		if !slices.ContainsFunc(zones, func(z catalogue.Zone) bool { return z.Name == name || z.ID == name }) {
			return nil, wire.InvalidValue("Invalid availability zone: [%s]", name)
		}
	}
	answer := struct {
		Zones []xmlZone `xml:"availabilityZoneInfo>item"`
	}{}
	for _, z := range zones {
		x := s.describeZone(z)
		ok, err := wire.Matches(filters, nil, x.attributes)
		if err != nil {
			return nil, err
		}
		named := len(names)+len(ids) == 0 || slices.Contains(names, z.Name) || slices.Contains(ids, z.ID)
		if ok && named {
			answer.Zones = append(answer.Zones, x)
		}
	}
	if c.Params.Bool("DryRun") {
		return nil, wire.DryRun()
	}
	return answer, nil
}

func (s *VPC) describeZone(z catalogue.Zone) xmlZone {
	x := xmlZone{Name: z.Name, State: "available", Region: s.Region.Name, ID: z.ID, Type: z.Kind(), Group: s.Region.Name + "-zg-1", OptIn: "opt-in-not-required", Border: s.Region.Name}
	if z.Kind() == catalogue.AvailabilityZone {
		return x
	}
	x.Group, x.Border, x.Parent, x.OptIn = z.Group(), z.Group(), s.Region.Zones[0].Name, "not-opted-in"
	if slices.Contains(s.Region.Zones, z) {
		x.OptIn = "opted-in"
	}
	return x
}

func (z *xmlZone) attributes(name string) ([]string, bool) {
	value, ok := map[string]string{"zone-name": z.Name, "zone-id": z.ID, "zone-type": z.Type, "state": z.State,
		"region-name": z.Region, "group-name": z.Group, "opt-in-status": z.OptIn}[name]
	return []string{value}, ok
}
