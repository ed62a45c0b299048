// Package network is the account's VPC: subnets with their addresses, security groups and zones.
package network

import (
	"fmt"
	"math/rand/v2"
	"net/netip"
	"slices"
	"strings"
	"time"

	"millwright/tools/ec2sim/catalogue"
	"millwright/tools/ec2sim/sim/account"
	"millwright/tools/ec2sim/sim/wire"
)

// VPC is the account's network: per Availability Zone one private and one public subnet, per local and
// Wavelength zone a private one, and security groups. The private subnets of Availability Zones and the
// cluster's groups carry the discovery tag.
type VPC struct {
	*account.Account
	// Occupied counts the addresses of a subnet that instances hold at a time.
	Occupied func(subnetID string, at time.Time) int
	VPCID    string
	cidr     string
	Subnets  []*Subnet // by id
	// Outposts are the instance types that each Outpost has, by ARN.
	Outposts map[string][]string
	Groups   []*SecurityGroup
}

// Subnet of one zone; it gives out addresses.
type Subnet struct {
	ID     string
	Zone   catalogue.Zone
	Prefix netip.Prefix
	Public bool
	Tags   map[string]string
	// Room, if not negative, replaces the number of free addresses.
	Room int
	// OutpostARN is of the Outpost that it is on; "" if it is in the region.
	OutpostARN string
	// Cursor is the last address given out, so that addresses are reused late.
	Cursor netip.Addr
}

// SecurityGroup of the VPC.
type SecurityGroup struct {
	ID          string
	Name        string
	Description string
	Tags        map[string]string
}

// DiscoveryTag is what manifests select subnets and security groups by.
const DiscoveryTag = "karpenter.sh/discovery"

// New returns a network that depends on the account's identity alone.
func New(a *account.Account) *VPC {
	cluster, region := a.Cfg.ClusterName, a.Region
	seed := a.Cfg.AccountID + "/" + region.Name + "/" + cluster
	n := &VPC{Account: a, VPCID: wire.FixedID("vpc", seed), cidr: "10.0.0.0/16", Outposts: map[string][]string{}}
	for i, zone := range region.Zones {
		if zone.Kind() != catalogue.AvailabilityZone {
			n.Subnets = append(n.Subnets, &Subnet{ID: wire.FixedID("subnet", seed+"/private/"+zone.Name), Zone: zone, Room: -1,
				Prefix: netip.PrefixFrom(netip.AddrFrom4([4]byte{10, 1, byte(4 * i), 0}), 22), Tags: map[string]string{"Name": cluster + "-private-" + zone.Name}})
			continue
		}
		n.Subnets = append(n.Subnets,
			&Subnet{ID: wire.FixedID("subnet", seed+"/private/"+zone.Name), Zone: zone, Room: -1,
				Prefix: netip.PrefixFrom(netip.AddrFrom4([4]byte{10, 0, byte(32 * i), 0}), 19),
				Tags: map[string]string{"Name": cluster + "-private-" + zone.Name, DiscoveryTag: cluster,
					"kubernetes.io/role/internal-elb": "1"}},
			&Subnet{ID: wire.FixedID("subnet", seed+"/public/"+zone.Name), Zone: zone, Public: true, Room: -1,
				Prefix: netip.PrefixFrom(netip.AddrFrom4([4]byte{10, 0, byte(192 + 4*i), 0}), 22),
				Tags:   map[string]string{"Name": cluster + "-public-" + zone.Name, "kubernetes.io/role/elb": "1"}})
	}
	slices.SortFunc(n.Subnets, func(a, b *Subnet) int { return strings.Compare(a.ID, b.ID) })
	n.Groups = []*SecurityGroup{
		{wire.FixedID("sg", seed+"/cluster"), "eks-cluster-sg-" + cluster, "EKS created security group",
			map[string]string{"Name": "eks-cluster-sg-" + cluster, "aws:eks:cluster-name": cluster,
				"kubernetes.io/cluster/" + cluster: "owned", DiscoveryTag: cluster}},
		{wire.FixedID("sg", seed+"/node"), cluster + "-node", "Nodes of " + cluster,
			map[string]string{"Name": cluster + "-node", DiscoveryTag: cluster}},
		{wire.FixedID("sg", seed+"/default"), "default", "default VPC security group", map[string]string{}},
	}
	slices.SortFunc(n.Groups, func(a, b *SecurityGroup) int { return strings.Compare(a.ID, b.ID) })
	return n
}

// Subnet returns a subnet by id, nil if there is none.
func (s *VPC) Subnet(id string) *Subnet {
	for _, sub := range s.Subnets {
		if sub.ID == id {
			return sub
		}
	}
	return nil
}

// SubnetIn returns the zone's default subnet for launches that name none: the private one.
func (s *VPC) SubnetIn(zone string) *Subnet {
	for _, sub := range s.Subnets {
		if sub.Zone.Name == zone && !sub.Public {
			return sub
		}
	}
	return nil
}

// Group returns a security group by id or name, nil if there is none.
func (s *VPC) Group(id string) *SecurityGroup {
	for _, g := range s.Groups {
		if g.ID == id || g.Name == id {
			return g
		}
	}
	return nil
}

// size is the number of addresses EC2 gives out: all but five.
func (sub *Subnet) size() int { return 1<<(32-sub.Prefix.Bits()) - 5 }

// Next gives out an address that is not in use, continuing after the last one.
func (sub *Subnet) Next(used func(netip.Addr) bool) (netip.Addr, bool) {
	first := sub.Prefix.Addr().Next().Next().Next().Next() // .0 to .3 are EC2's own
	if !sub.Cursor.IsValid() {
		sub.Cursor = sub.somewhere()
	}
	addr := sub.Cursor
	for range sub.size() {
		addr = addr.Next()
		if !sub.Prefix.Contains(addr.Next()) { // the last one is broadcast
			addr = first
		}
		if !used(addr) {
			sub.Cursor = addr
			return addr, true
		}
	}
	return netip.Addr{}, false
}

// somewhere is a random address of the subnet: a new account must not give its instances the names that Nodes
// of an earlier one may still have.
func (sub *Subnet) somewhere() netip.Addr {
	base := sub.Prefix.Addr().As4()
	offset := 4 + rand.IntN(sub.size()-1)
	base[2] += byte(offset >> 8)
	base[3] = byte(offset)
	return netip.AddrFrom4(base)
}

// PrivateDNS is the host name of an address: ip-10-0-1-2.us-west-2.compute.internal.
func PrivateDNS(addr netip.Addr, region string) string {
	host := "ip-" + strings.ReplaceAll(addr.String(), ".", "-")
	if region == "us-east-1" {
		return host + ".ec2.internal"
	}
	return fmt.Sprintf("%s.%s.compute.internal", host, region)
}

// UnknownSubnet refuses a call that names a subnet that does not exist.
func UnknownSubnet(id string) *wire.Error {
	return wire.Refuse("InvalidSubnetID.NotFound", "The subnet ID '%s' does not exist", id)
}
