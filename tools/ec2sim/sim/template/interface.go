package template

import (
	"strings"

	"millwright/tools/ec2sim/sim/wire"
)

// Interface is a network interface to be.
type Interface struct {
	DeviceIndex int      `json:"deviceIndex" xml:"deviceIndex"`
	CardIndex   int      `json:"cardIndex" xml:"networkCardIndex"`
	Type        string   `json:"type,omitempty" xml:"interfaceType,omitempty"`
	Groups      []string `json:"groups,omitempty" xml:"groupSet>groupId,omitempty"`
	SubnetID    string   `json:"subnetId,omitempty" xml:"subnetId,omitempty"`
	PublicIP    string   `json:"publicIp,omitempty" xml:"associatePublicIpAddress,omitempty"`
	PrimaryIPv6 bool     `json:"primaryIpv6,omitempty" xml:"primaryIpv6,omitempty"`
	// Prefixes of IPv4 and IPv6 addresses.
	IPv4Prefixes int       `json:"ipv4Prefixes,omitempty" xml:"ipv4PrefixCount,omitempty"`
	IPv6Prefixes int       `json:"ipv6Prefixes,omitempty" xml:"ipv6PrefixCount,omitempty"`
	Tracking     *Tracking `json:"tracking,omitempty" xml:"connectionTrackingSpecification,omitempty"`
}

// Tracking holds idle timeouts of tracked connections, in seconds; 0 is EC2's own.
type Tracking struct {
	TCPEstablished int `json:"tcpEstablished,omitempty" xml:"tcpEstablishedTimeout,omitempty"`
	UDPStream      int `json:"udpStream,omitempty" xml:"udpStreamTimeout,omitempty"`
	UDP            int `json:"udp,omitempty" xml:"udpTimeout,omitempty"`
}

// Types of interfaces.
const (
	EFA     = "efa"
	EFAOnly = "efa-only"
)

// IsEFA: it is an Elastic Fabric Adapter, with or without addresses.
func (i *Interface) IsEFA() bool { return strings.HasPrefix(i.Type, EFA) }

// Primary: it is the instance's first.
func (i *Interface) Primary() bool { return i.DeviceIndex == 0 && i.CardIndex == 0 }

// prefixAddresses is how many addresses an IPv4 prefix takes of its subnet.
const prefixAddresses = 16

// Addresses that an instance takes of its subnet.
func (d *Data) Addresses() int {
	n := 0
	for i := range d.Interfaces {
		if d.Interfaces[i].Type != EFAOnly {
			n += 1 + prefixAddresses*d.Interfaces[i].IPv4Prefixes
		}
	}
	return max(1, n)
}

// EFAs counts the Elastic Fabric Adapters asked for.
func (d *Data) EFAs() int {
	n := 0
	for i := range d.Interfaces {
		if d.Interfaces[i].IsEFA() {
			n++
		}
	}
	return n
}

func readInterface(p *wire.Params) (Interface, *wire.Error) {
	i := Interface{Type: p.Str("InterfaceType"), Groups: p.Strs("SecurityGroupId"), SubnetID: p.Str("SubnetId"),
		PublicIP: p.Str("AssociatePublicIpAddress"), PrimaryIPv6: p.Bool("PrimaryIpv6")}
	switch i.Type {
	case "", "interface", EFA, EFAOnly:
	default:
		return i, wire.InvalidValue("Value (%s) for parameter interfaceType is invalid.", i.Type)
	}
	t := &Tracking{}
	for _, n := range []struct {
		name        string
		into        *int
		least, most int
	}{
		{"DeviceIndex", &i.DeviceIndex, 0, 1 << 16}, {"NetworkCardIndex", &i.CardIndex, 0, 1 << 16},
		{"Ipv4PrefixCount", &i.IPv4Prefixes, 0, 1 << 16}, {"Ipv6PrefixCount", &i.IPv6Prefixes, 0, 1 << 16},
		{"ConnectionTrackingSpecification.TcpEstablishedTimeout", &t.TCPEstablished, 60, 432000},
		{"ConnectionTrackingSpecification.UdpStreamTimeout", &t.UDPStream, 60, 180},
		{"ConnectionTrackingSpecification.UdpTimeout", &t.UDP, 30, 60},
	} {
		v, err := p.Int(n.name, 0)
		if err != nil || p.Has(n.name) && (v < n.least || v > n.most) {
			return i, wire.InvalidValue("Value (%s) for parameter %s is invalid.", p.Str(n.name), n.name)
		}
		*n.into = v
	}
	if *t != (Tracking{}) {
		i.Tracking = t
	}
	return i, i.check()
}

func (i *Interface) check() *wire.Error {
	if i.Type == EFAOnly && (i.Primary() || i.IPv4Prefixes+i.IPv6Prefixes > 0 || i.PublicIP == "true") {
		return wire.Refuse("InvalidParameterCombination", "An interface of type efa-only has no IP addresses, and cannot be the primary network interface.")
	}
	return nil
}
