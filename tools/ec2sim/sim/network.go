package sim

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"math/rand/v2"
	"net/netip"
	"slices"
	"strings"

	"millwright/tools/ec2sim/catalogue"
)

// network is the VPC: per zone one private and one public subnet, and security groups. The private subnets
// and the cluster's groups carry the discovery tag.
type network struct {
	vpcID   string
	cidr    string
	subnets []*subnet // by id
	groups  []*securityGroup
}

type subnet struct {
	ID     string
	Zone   catalogue.Zone
	Prefix netip.Prefix
	Public bool
	Tags   map[string]string
	// Room, if not negative, replaces the number of free addresses.
	Room int
	// cursor is the last address given out, so that addresses are reused late.
	cursor netip.Addr
}

type securityGroup struct {
	ID          string
	Name        string
	Description string
	Tags        map[string]string
}

// DiscoveryTag is what manifests select subnets and security groups by.
const DiscoveryTag = "karpenter.sh/discovery"

func newNetwork(cluster, account string, region *catalogue.Region) network {
	seed := account + "/" + region.Name + "/" + cluster
	n := network{vpcID: fixedID("vpc", seed), cidr: "10.0.0.0/16"}
	for i, zone := range region.Zones {
		n.subnets = append(n.subnets,
			&subnet{ID: fixedID("subnet", seed+"/private/"+zone.Name), Zone: zone, Room: -1,
				Prefix: netip.PrefixFrom(netip.AddrFrom4([4]byte{10, 0, byte(32 * i), 0}), 19),
				Tags: map[string]string{"Name": cluster + "-private-" + zone.Name, DiscoveryTag: cluster,
					"kubernetes.io/role/internal-elb": "1"}},
			&subnet{ID: fixedID("subnet", seed+"/public/"+zone.Name), Zone: zone, Public: true, Room: -1,
				Prefix: netip.PrefixFrom(netip.AddrFrom4([4]byte{10, 0, byte(192 + 4*i), 0}), 22),
				Tags:   map[string]string{"Name": cluster + "-public-" + zone.Name, "kubernetes.io/role/elb": "1"}})
	}
	slices.SortFunc(n.subnets, func(a, b *subnet) int { return strings.Compare(a.ID, b.ID) })
	n.groups = []*securityGroup{
		{fixedID("sg", seed+"/cluster"), "eks-cluster-sg-" + cluster, "EKS created security group",
			map[string]string{"Name": "eks-cluster-sg-" + cluster, "aws:eks:cluster-name": cluster,
				"kubernetes.io/cluster/" + cluster: "owned", DiscoveryTag: cluster}},
		{fixedID("sg", seed+"/node"), cluster + "-node", "Nodes of " + cluster,
			map[string]string{"Name": cluster + "-node", DiscoveryTag: cluster}},
		{fixedID("sg", seed+"/default"), "default", "default VPC security group", map[string]string{}},
	}
	slices.SortFunc(n.groups, func(a, b *securityGroup) int { return strings.Compare(a.ID, b.ID) })
	return n
}

// fixedID is an id that depends on the seed alone, so that a restarted account has the same network.
func fixedID(prefix, seed string) string {
	sum := sha256.Sum256([]byte(prefix + "/" + seed))
	return prefix + "-0" + hex.EncodeToString(sum[:8])
}

func (n *network) subnet(id string) *subnet {
	for _, sub := range n.subnets {
		if sub.ID == id {
			return sub
		}
	}
	return nil
}

// subnetIn returns the zone's default subnet for launches that name none: the private one.
func (n *network) subnetIn(zone string) *subnet {
	for _, sub := range n.subnets {
		if sub.Zone.Name == zone && !sub.Public {
			return sub
		}
	}
	return nil
}

func (n *network) group(id string) *securityGroup {
	for _, g := range n.groups {
		if g.ID == id || g.Name == id {
			return g
		}
	}
	return nil
}

// size is the number of addresses EC2 gives out: all but five.
func (sub *subnet) size() int { return 1<<(32-sub.Prefix.Bits()) - 5 }

// next gives out an address that is not in use, continuing after the last one.
func (sub *subnet) next(used func(netip.Addr) bool) (netip.Addr, bool) {
	first := sub.Prefix.Addr().Next().Next().Next().Next() // .0 to .3 are EC2's own
	if !sub.cursor.IsValid() {
		sub.cursor = sub.somewhere()
	}
	addr := sub.cursor
	for range sub.size() {
		addr = addr.Next()
		if !sub.Prefix.Contains(addr.Next()) { // the last one is broadcast
			addr = first
		}
		if !used(addr) {
			sub.cursor = addr
			return addr, true
		}
	}
	return netip.Addr{}, false
}

// somewhere is a random address of the subnet: a new account must not give its instances the names that Nodes
// of an earlier one may still have.
func (sub *subnet) somewhere() netip.Addr {
	base := sub.Prefix.Addr().As4()
	offset := 4 + rand.IntN(sub.size()-1)
	base[2] += byte(offset >> 8)
	base[3] = byte(offset)
	return netip.AddrFrom4(base)
}

// privateDNS is the host name of an address: ip-10-0-1-2.us-west-2.compute.internal.
func privateDNS(addr netip.Addr, region string) string {
	host := "ip-" + strings.ReplaceAll(addr.String(), ".", "-")
	if region == "us-east-1" {
		return host + ".ec2.internal"
	}
	return fmt.Sprintf("%s.%s.compute.internal", host, region)
}
