package instance

import (
	"cmp"
	"net/netip"
	"strings"
	"time"

	"millwright/tools/ec2sim/catalogue"
	"millwright/tools/ec2sim/sim/ami"
	"millwright/tools/ec2sim/sim/network"
	"millwright/tools/ec2sim/sim/placement"
	"millwright/tools/ec2sim/sim/tag"
	"millwright/tools/ec2sim/sim/template"
	"millwright/tools/ec2sim/sim/wire"
)

// launchSpec is one instance to be: what to launch, where, and for which fleet.
type launchSpec struct {
	data         template.Data
	instanceType *catalogue.Type
	subnet       *network.Subnet
	image        *ami.Image
	capacityType string
	fleetID      string
	tags         map[string]map[string]string
	// group is nil for none; partition is set once there is a place for it.
	group     *placement.Group
	partition int
}

// place finds the subnet: the one named, else the zone's own, else that of the template's interface.
func (s *Service) place(l *launchSpec, subnetID, zone string) *wire.Error {
	for _, i := range l.data.Interfaces {
		subnetID = cmp.Or(subnetID, i.SubnetID)
	}
	if subnetID != "" {
		l.subnet = s.deps.VPC.Subnet(subnetID)
		if l.subnet == nil {
			return network.UnknownSubnet(subnetID)
		}
		if zone != "" && zone != l.subnet.Zone.Name {
			return wire.InvalidValue("The subnet ID '%s' is not in the Availability Zone '%s'.", subnetID, zone)
		}
		return nil
	}
	if zone == "" {
		zone = s.Region.Zones[0].Name
	}
	l.subnet = s.deps.VPC.SubnetIn(zone)
	if l.subnet == nil {
		return wire.InvalidValue("Invalid availability zone: [%s]", zone)
	}
	return nil
}

// check applies EC2's rules to type, image, groups and profile.
func (s *Service) check(l *launchSpec, now time.Time) *wire.Error {
	if err := s.checkType(l); err != nil {
		return err
	}
	if err := checkHardware(l.instanceType, &l.data); err != nil {
		return err
	}
	if err := s.checkGroup(l); err != nil {
		return err
	}
	if err := s.checkImage(l); err != nil {
		return err
	}
	for _, id := range l.data.PrimaryGroups() {
		if s.deps.VPC.Group(id) == nil {
			return wire.Refuse("InvalidGroup.NotFound", "The security group '%s' does not exist in VPC '%s'", id, s.deps.VPC.VPCID)
		}
	}
	if err := template.CheckUserData(l.data.UserData); err != nil {
		return err
	}
	return s.deps.Profiles.CheckProfile(l.data.Profile, now)
}

func (s *Service) checkType(l *launchSpec) *wire.Error {
	name := l.data.InstanceType
	if name == "" {
		return wire.MissingParameter("InstanceType")
	}
	l.instanceType = catalogue.Lookup(name)
	if l.instanceType == nil {
		return wire.InvalidValue("Invalid value '%s' for InstanceType.", name)
	}
	zone := l.subnet.Zone.Name
	if !s.Region.Offers(l.instanceType, zone) {
		return wire.Refuse("Unsupported", "Your requested instance type (%s) is not supported in your requested Availability Zone (%s). "+
			"Please retry your request by not specifying an Availability Zone or choosing %s.", name, zone, s.zonesOffering(l.instanceType))
	}
	purchased := l.capacityType
	if purchased == "reserved-capacity" {
		purchased = "on-demand"
	}
	if !l.instanceType.Supports(purchased) {
		return wire.Refuse("Unsupported", "The instance type '%s' does not support the purchase option '%s'.", name, l.capacityType)
	}
	return nil
}

func (s *Service) checkGroup(l *launchSpec) *wire.Error {
	var err *wire.Error
	if l.group, err = s.deps.Groups.Find(l.data.GroupID, l.data.GroupName); err != nil {
		return err
	}
	if l.group == nil {
		if l.data.Partition != 0 {
			return wire.Refuse("InvalidParameterCombination", "The partition number may only be specified with a placement group.")
		}
		return nil
	}
	return l.group.Check(l.instanceType.Name, l.instanceType.PlacementStrategies, l.data.Partition)
}

func (s *Service) zonesOffering(t *catalogue.Type) string {
	var zones []string
	for _, z := range s.Region.Zones {
		if s.Region.Offers(t, z.Name) {
			zones = append(zones, z.Name)
		}
	}
	return strings.Join(zones, ", ")
}

func (s *Service) checkImage(l *launchSpec) *wire.Error {
	id := l.data.ImageID
	switch {
	case id == "":
		return wire.MissingParameter("ImageId")
	case !strings.HasPrefix(id, "ami-"):
		return wire.Refuse("InvalidAMIID.Malformed", `Invalid id: "%s" (expecting "ami-...")`, id)
	}
	l.image = s.deps.Images.ByID[id]
	if l.image == nil {
		return wire.Refuse("InvalidAMIID.NotFound", "The image id '[%s]' does not exist", id)
	}
	if l.image.Arch != l.instanceType.Architectures[len(l.instanceType.Architectures)-1] {
		return wire.InvalidValue("The architecture '%s' of the specified instance type does not match the architecture '%s' of the specified AMI. "+
			"Specify an instance type and an AMI that have matching architectures, and try again.",
			strings.Join(l.instanceType.Architectures, ","), l.image.Arch)
	}
	return nil
}

// launch makes the instance. Everything has been checked; only the address can still be missing.
func (s *Service) launch(c *wire.Call, l launchSpec, now time.Time) (*Instance, *wire.Error) {
	addr, ok := l.subnet.Next(func(a netip.Addr) bool { return s.instances.uses(a, now) })
	if !ok {
		return nil, wire.Refuse("InsufficientFreeAddressesInSubnet", "There are not enough free addresses in subnet '%s'.", l.subnet.ID)
	}
	in := &Instance{
		ID: wire.NewID("i"), Type: l.instanceType.Name, Zone: l.subnet.Zone.Name, ZoneID: l.subnet.Zone.ID, SubnetID: l.subnet.ID,
		ImageID: l.data.ImageID, CapacityType: l.capacityType, PrivateIP: addr.String(),
		PrivateDNS: network.PrivateDNS(addr, s.Region.Name), LaunchTime: now, FleetID: l.fleetID, ReservationID: wire.NewID("r"),
		ClientToken: c.Params.Str("ClientToken"), Data: l.data, Groups: s.groupIDs(l.data.PrimaryGroups()), InterfaceID: wire.NewID("eni"),
		Pending: time.Duration(s.Settings.Pending), CapacityReservationID: l.data.ReservationID,
	}
	if l.group != nil {
		in.PlacementGroup, in.Partition = l.group.ID, l.partition
	}
	tags := mergedTags(l.data.TagsByResource, l.tags)
	in.Tags = tag.New(tags["instance"], now)
	in.PartTags = map[string]tag.History{in.InterfaceID: tag.New(tags["network-interface"], now)}
	if l.fleetID != "" {
		in.PartTags[l.fleetID] = tag.New(tags["fleet"], now)
	}
	if l.capacityType == "spot" {
		in.SpotRequestID = wire.NewID("sir")
		in.PartTags[in.SpotRequestID] = tag.New(tags["spot-instances-request"], now)
	}
	for range max(1, len(l.data.Devices)) {
		volume := wire.NewID("vol")
		in.VolumeIDs = append(in.VolumeIDs, volume)
		in.PartTags[volume] = tag.New(tags["volume"], now)
	}
	if taken := s.deps.Reservations.TakenAt(l.data.ReservationID); !taken.IsZero() {
		in.terminate(taken, "Server.CapacityBlockEnded", time.Duration(s.Settings.ShuttingDown))
	}
	s.instances.addInstance(in)
	s.keepInstance(in)
	return in, nil
}

// groupIDs resolves names; without any, the VPC's default group.
func (s *Service) groupIDs(named []string) []string {
	if len(named) == 0 {
		named = []string{"default"}
	}
	var ids []string
	for _, name := range named {
		ids = append(ids, s.deps.VPC.Group(name).ID)
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
