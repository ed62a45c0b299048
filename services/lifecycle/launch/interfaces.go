package launch

import (
	"github.com/aws/aws-sdk-go-v2/aws"
	ec2types "github.com/aws/aws-sdk-go-v2/service/ec2/types"

	awsv1 "millwright/api/karpenteraws/v1"
)

type networkInterface = ec2types.LaunchTemplateInstanceNetworkInterfaceSpecificationRequest

// networkInterfaces returns those that the class names, else the primary one, or one per EFA (ec2 §4.4).
func networkInterfaces(nc *awsv1.EC2NodeClass, efas int64, ipv6 bool) []networkInterface {
	out := named(nc)
	if len(out) == 0 {
		out = byEFA(efas)
	}
	for i := range out {
		n := &out[i]
		for _, g := range nc.Status.SecurityGroups {
			n.Groups = append(n.Groups, g.ID)
		}
		if aws.ToString(n.InterfaceType) == awsv1.InterfaceTypeEFAOnly {
			continue // it carries no IP traffic
		}
		n.ConnectionTrackingSpecification = connectionTracking(nc.Spec.ConnectionTracking)
		if aws.ToInt32(n.NetworkCardIndex) == 0 && *n.DeviceIndex == 0 {
			primary(n, nc, ipv6)
		}
	}
	return out
}

// named are the interfaces of the class, in its order.
func named(nc *awsv1.EC2NodeClass) []networkInterface {
	var out []networkInterface
	for _, i := range nc.Spec.NetworkInterfaces {
		out = append(out, networkInterface{
			NetworkCardIndex: aws.Int32(i.NetworkCardIndex), DeviceIndex: aws.Int32(i.DeviceIndex), InterfaceType: aws.String(i.InterfaceType),
		})
	}
	return out
}

// byEFA is one interface per EFA, on a card each; a plain one without any.
func byEFA(efas int64) []networkInterface {
	if efas == 0 {
		return []networkInterface{{DeviceIndex: aws.Int32(0)}}
	}
	var out []networkInterface
	for i := range int32(efas) {
		out = append(out, networkInterface{NetworkCardIndex: aws.Int32(i), DeviceIndex: aws.Int32(min(i, 1)), InterfaceType: aws.String("efa")})
	}
	return out
}

// primary gives the interface at card 0, device 0 what only that one has. Prefixes are of the family of
// addresses that pods get.
func primary(n *networkInterface, nc *awsv1.EC2NodeClass, ipv6 bool) {
	n.AssociatePublicIpAddress = nc.Spec.AssociatePublicIPAddress
	prefixes := nc.Spec.IPPrefixCount
	if aws.ToInt32(prefixes) == 0 {
		prefixes = nil
	}
	if !ipv6 {
		n.Ipv4PrefixCount = prefixes
		return
	}
	n.PrimaryIpv6, n.Ipv6AddressCount, n.Ipv6PrefixCount = aws.Bool(true), aws.Int32(1), prefixes
}

// connectionTracking leaves out what the class leaves to EC2.
func connectionTracking(c *awsv1.ConnectionTracking) *ec2types.ConnectionTrackingSpecificationRequest {
	if c == nil {
		return nil
	}
	return &ec2types.ConnectionTrackingSpecificationRequest{
		TcpEstablishedTimeout: c.TCPEstablishedTimeout, UdpStreamTimeout: c.UDPStreamTimeout, UdpTimeout: c.UDPTimeout,
	}
}
