package sim

import (
	"net/netip"
	"strings"
	"time"

	"millwright/tools/ec2sim/catalogue"
)

// launchSpec is one instance to be: what to launch, where, and for which fleet.
type launchSpec struct {
	data         templateData
	instanceType *catalogue.Type
	subnet       *subnet
	image        *image
	capacityType string
	fleetID      string
	tags         map[string]map[string]string
}

// place finds the subnet: the one named, else the zone's own, else that of the template's interface.
func (s *Server) place(l *launchSpec, subnetID, zone string) *Error {
	for _, i := range l.data.Interfaces {
		subnetID = orElse(subnetID, i.SubnetID)
	}
	if subnetID != "" {
		l.subnet = s.network.subnet(subnetID)
		if l.subnet == nil {
			return unknownSubnet(subnetID)
		}
		if zone != "" && zone != l.subnet.Zone.Name {
			return invalidValue("The subnet ID '%s' is not in the Availability Zone '%s'.", subnetID, zone)
		}
		return nil
	}
	if zone == "" {
		zone = s.region.Zones[0].Name
	}
	l.subnet = s.network.subnetIn(zone)
	if l.subnet == nil {
		return invalidValue("Invalid availability zone: [%s]", zone)
	}
	return nil
}

func unknownSubnet(id string) *Error {
	return refuse("InvalidSubnetID.NotFound", "The subnet ID '%s' does not exist", id)
}

// check applies EC2's rules to type, image, groups and profile.
func (s *Server) check(l *launchSpec, now time.Time) *Error {
	if err := s.checkType(l); err != nil {
		return err
	}
	if err := s.checkImage(l); err != nil {
		return err
	}
	for _, id := range l.data.groups() {
		if s.network.group(id) == nil {
			return refuse("InvalidGroup.NotFound", "The security group '%s' does not exist in VPC '%s'", id, s.network.vpcID)
		}
	}
	if err := checkUserData(l.data.UserData); err != nil {
		return err
	}
	return s.checkProfile(l.data.Profile, now)
}

func (s *Server) checkType(l *launchSpec) *Error {
	name := l.data.InstanceType
	if name == "" {
		return missingParameter("InstanceType")
	}
	l.instanceType = catalogue.Lookup(name)
	if l.instanceType == nil {
		return invalidValue("Invalid value '%s' for InstanceType.", name)
	}
	zone := l.subnet.Zone.Name
	if !s.region.Offers(l.instanceType, zone) {
		return refuse("Unsupported", "Your requested instance type (%s) is not supported in your requested Availability Zone (%s). "+
			"Please retry your request by not specifying an Availability Zone or choosing %s.", name, zone, s.zonesOffering(l.instanceType))
	}
	if !l.instanceType.Supports(l.capacityType) {
		return refuse("Unsupported", "The instance type '%s' does not support the purchase option '%s'.", name, l.capacityType)
	}
	return nil
}

func (s *Server) zonesOffering(t *catalogue.Type) string {
	var zones []string
	for _, z := range s.region.Zones {
		if s.region.Offers(t, z.Name) {
			zones = append(zones, z.Name)
		}
	}
	return strings.Join(zones, ", ")
}

func (s *Server) checkImage(l *launchSpec) *Error {
	id := l.data.ImageID
	switch {
	case id == "":
		return missingParameter("ImageId")
	case !strings.HasPrefix(id, "ami-"):
		return refuse("InvalidAMIID.Malformed", `Invalid id: "%s" (expecting "ami-...")`, id)
	}
	l.image = s.images[id]
	if l.image == nil {
		return refuse("InvalidAMIID.NotFound", "The image id '[%s]' does not exist", id)
	}
	if l.image.Arch != l.instanceType.Architectures[len(l.instanceType.Architectures)-1] {
		return invalidValue("The architecture '%s' of the specified instance type does not match the architecture '%s' of the specified AMI. "+
			"Specify an instance type and an AMI that have matching architectures, and try again.",
			strings.Join(l.instanceType.Architectures, ","), l.image.Arch)
	}
	return nil
}

// launch makes the instance. Everything has been checked; only the address can still be missing.
func (s *Server) launch(c *call, l launchSpec, now time.Time) (*Instance, *Error) {
	addr, ok := l.subnet.next(func(a netip.Addr) bool { return s.instances.uses(a, now) })
	if !ok {
		return nil, refuse("InsufficientFreeAddressesInSubnet", "There are not enough free addresses in subnet '%s'.", l.subnet.ID)
	}
	in := &Instance{
		ID: newID("i"), Type: l.instanceType.Name, Zone: l.subnet.Zone.Name, ZoneID: l.subnet.Zone.ID, SubnetID: l.subnet.ID,
		ImageID: l.data.ImageID, CapacityType: l.capacityType, PrivateIP: addr.String(),
		PrivateDNS: privateDNS(addr, s.region.Name), LaunchTime: now, FleetID: l.fleetID, ReservationID: newID("r"),
		ClientToken: c.params.str("ClientToken"), Data: l.data, Groups: s.groupIDs(l.data.groups()), InterfaceID: newID("eni"),
		Pending: time.Duration(s.settings.Pending), CapacityReservationID: l.data.ReservationID,
	}
	tags := mergedTags(l.data.TagsByResource, l.tags)
	in.Tags = newTags(tags["instance"], now)
	in.PartTags = map[string]tagHistory{in.InterfaceID: newTags(tags["network-interface"], now)}
	if l.fleetID != "" {
		in.PartTags[l.fleetID] = newTags(tags["fleet"], now)
	}
	if l.capacityType == "spot" {
		in.SpotRequestID = newID("sir")
		in.PartTags[in.SpotRequestID] = newTags(tags["spot-instances-request"], now)
	}
	for range max(1, len(l.data.Devices)) {
		volume := newID("vol")
		in.VolumeIDs = append(in.VolumeIDs, volume)
		in.PartTags[volume] = newTags(tags["volume"], now)
	}
	s.instances.add(in)
	s.keepInstance(in)
	return in, nil
}

// groupIDs resolves names; without any, the VPC's default group.
func (s *Server) groupIDs(named []string) []string {
	if len(named) == 0 {
		named = []string{"default"}
	}
	var ids []string
	for _, name := range named {
		ids = append(ids, s.network.group(name).ID)
	}
	return ids
}

// mergedTags are the template's tags with the request's over them.
func mergedTags(layers ...map[string]map[string]string) map[string]map[string]string {
	out := map[string]map[string]string{}
	for _, layer := range layers {
		for kind, tags := range layer {
			if out[kind] == nil {
				out[kind] = map[string]string{}
			}
			for k, v := range tags {
				out[kind][k] = v
			}
		}
	}
	return out
}
