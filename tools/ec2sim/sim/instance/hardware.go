package instance

import (
	"slices"

	"millwright/tools/ec2sim/catalogue"
	"millwright/tools/ec2sim/sim/template"
	"millwright/tools/ec2sim/sim/wire"
)

// checkHardware refuses what the type does not have: network cards, interfaces, adapters, prefixes, timeouts
// of its own, nested virtualization.
func checkHardware(t *catalogue.Type, d *template.Data) *wire.Error {
	if d.Nested == "enabled" && !slices.Contains(t.Features, "nested-virtualization") {
		return wire.Refuse("InvalidParameterCombination", "The instance type '%s' does not support nested virtualization.", t.Name)
	}
	taken := map[[2]int]bool{}
	for i := range d.Interfaces {
		n := &d.Interfaces[i]
		place := [2]int{n.CardIndex, n.DeviceIndex}
		if taken[place] {
			return wire.Refuse("InvalidParameterCombination", "Each network interface requires a unique device index on its network card.")
		}
		taken[place] = true
		if err := checkInterface(t, n, len(d.Interfaces)); err != nil {
			return err
		}
	}
	if len(d.Interfaces) > 0 && !taken[[2]int{}] {
		return wire.InvalidValue("A primary network interface, at device index 0 of network card 0, is required.")
	}
	if n := d.EFAs(); n > t.EFAs {
		return wire.Refuse("AttachmentLimitExceeded", "Interface count %d exceeds the limit of EFA interfaces, %d, for %s", n, t.EFAs, t.Name)
	}
	return nil
}

func checkInterface(t *catalogue.Type, n *template.Interface, of int) *wire.Error {
	nitro := t.Hypervisor == "nitro" || t.BareMetal
	switch {
	case n.CardIndex >= t.NetworkCards:
		return wire.InvalidValue("Network card index %d exceeds the limit for %s.", n.CardIndex, t.Name)
	case n.DeviceIndex >= t.ENIs:
		return wire.Refuse("AttachmentLimitExceeded", "Device index %d exceeds the limit of interfaces, %d, of network card %d of %s", n.DeviceIndex, t.ENIs, n.CardIndex, t.Name)
	case n.IsEFA() && t.EFAs == 0:
		return wire.Refuse("UnsupportedOperation", "EFA interfaces are not supported on %s", t.Name)
	case n.PublicIP == "true" && of > 1:
		return wire.Refuse("InvalidParameterCombination", "The associatePublicIPAddress parameter cannot be specified when launching with multiple network interfaces.")
	case n.Tracking != nil && t.Hypervisor != "nitro":
		return wire.Refuse("UnsupportedOperation", "Connection tracking timeouts cannot be configured on %s", t.Name)
	case n.IPv4Prefixes+n.IPv6Prefixes > 0 && !nitro:
		return wire.Refuse("UnsupportedOperation", "Prefixes are not supported on %s", t.Name)
	case n.IPv4Prefixes >= t.IPv4PerENI || n.IPv6Prefixes >= t.IPv4PerENI:
		return wire.Refuse("PrivateIpAddressLimitExceeded", "Number of prefixes exceeds the limit, %d, of the interfaces of %s", t.IPv4PerENI-1, t.Name)
	}
	return nil
}
