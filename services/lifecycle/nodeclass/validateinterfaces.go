package nodeclass

import (
	"fmt"

	awsv1 "millwright/api/karpenteraws/v1"
)

// interfaces: one primary, no place taken twice, one EFA per card; and no public address, which EC2 gives
// only to instances with a single interface.
func (f *faults) interfaces(s awsv1.EC2NodeClassSpec) {
	if c := s.ConnectionTracking; c != nil && c.TCPEstablishedTimeout == nil && c.UDPStreamTimeout == nil && c.UDPTimeout == nil {
		f.addFault("spec.connectionTracking", "at least one of tcpEstablishedTimeout, udpStreamTimeout, or udpTimeout must be set")
	}
	if len(s.NetworkInterfaces) == 0 {
		return
	}
	const field = "spec.networkInterfaces"
	primary, places, efas := false, map[[2]int32]int{}, map[int32]int{}
	for i, n := range s.NetworkInterfaces {
		at := fmt.Sprintf("%s[%d]", field, i)
		place := [2]int32{n.NetworkCardIndex, n.DeviceIndex}
		if first, taken := places[place]; taken {
			f.addFault(at, "has networkCardIndex %d and deviceIndex %d, as networkInterfaces[%d] has", n.NetworkCardIndex, n.DeviceIndex, first)
		}
		places[place] = i
		if n.InterfaceType != awsv1.InterfaceTypeEFAOnly {
			primary = primary || place == [2]int32{}
			continue
		}
		if first, taken := efas[n.NetworkCardIndex]; taken {
			f.addFault(at, "is a second efa device on networkCardIndex %d, beside networkInterfaces[%d]", n.NetworkCardIndex, first)
		}
		efas[n.NetworkCardIndex] = i
	}
	if !primary {
		f.addFault(field, "networkInterfaces must include a primary interface with interfaceType='interface'")
	}
	if p := s.AssociatePublicIPAddress; p != nil && *p && len(s.NetworkInterfaces) > 1 {
		f.addFault("spec.associatePublicIPAddress", "EC2 gives no public address to instances with more than one network interface")
	}
}
