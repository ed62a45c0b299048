package instance

import (
	"cmp"
	"slices"
	"strconv"
	"strings"
	"time"

	"millwright/tools/ec2sim/sim/placement"
	"millwright/tools/ec2sim/sim/tag"
	"millwright/tools/ec2sim/sim/template"
	"millwright/tools/ec2sim/sim/wire"
)

type xmlInstance struct {
	ID           string                 `xml:"instanceId"`
	ImageID      string                 `xml:"imageId"`
	State        xmlState               `xml:"instanceState"`
	PrivateDNS   string                 `xml:"privateDnsName"`
	Reason       string                 `xml:"reason,omitempty"`
	StateReason  *xmlReason             `xml:"stateReason,omitempty"`
	ClientToken  string                 `xml:"clientToken,omitempty"`
	InstanceType string                 `xml:"instanceType"`
	LaunchTime   string                 `xml:"launchTime"`
	Placement    xmlPlacement           `xml:"placement"`
	Monitoring   string                 `xml:"monitoring>state"`
	SubnetID     string                 `xml:"subnetId,omitempty"`
	VPCID        string                 `xml:"vpcId,omitempty"`
	PrivateIP    string                 `xml:"privateIpAddress,omitempty"`
	Groups       []xmlGroupRef          `xml:"groupSet>item"`
	Architecture string                 `xml:"architecture"`
	RootType     string                 `xml:"rootDeviceType"`
	RootName     string                 `xml:"rootDeviceName"`
	Devices      []xmlDevice            `xml:"blockDeviceMapping>item"`
	Virtual      string                 `xml:"virtualizationType"`
	Lifecycle    string                 `xml:"instanceLifecycle,omitempty"`
	SpotRequest  string                 `xml:"spotInstanceRequestId,omitempty"`
	Reserved     string                 `xml:"capacityReservationId,omitempty"`
	Preference   string                 `xml:"capacityReservationSpecification>capacityReservationPreference,omitempty"`
	Target       string                 `xml:"capacityReservationSpecification>capacityReservationTarget>capacityReservationId,omitempty"`
	Tags         []tag.XML              `xml:"tagSet>item"`
	Hypervisor   string                 `xml:"hypervisor"`
	Profile      *xmlProfileRef         `xml:"iamInstanceProfile,omitempty"`
	Interfaces   []xmlInterface         `xml:"networkInterfaceSet>item"`
	Metadata     *template.MetadataData `xml:"metadataOptions,omitempty"`
	EBSOptimized bool                   `xml:"ebsOptimized"`
	ENASupport   bool                   `xml:"enaSupport"`
}

type xmlState struct {
	Code int    `xml:"code"`
	Name string `xml:"name"`
}

type xmlReason struct {
	Code    string `xml:"code"`
	Message string `xml:"message"`
}

type xmlPlacement struct {
	Zone    string `xml:"availabilityZone"`
	ZoneID  string `xml:"availabilityZoneId"`
	Tenancy string `xml:"tenancy"`
	// Of the placement group.
	GroupName string `xml:"groupName,omitempty"`
	GroupID   string `xml:"groupId,omitempty"`
	Partition string `xml:"partitionNumber,omitempty"`
}

type xmlGroupRef struct {
	ID   string `xml:"groupId"`
	Name string `xml:"groupName"`
}

type xmlDevice struct {
	Name     string `xml:"deviceName"`
	VolumeID string `xml:"ebs>volumeId"`
	Status   string `xml:"ebs>status"`
}

type xmlProfileRef struct {
	ARN string `xml:"arn"`
	ID  string `xml:"id"`
}

type xmlInterface struct {
	ID        string        `xml:"networkInterfaceId"`
	SubnetID  string        `xml:"subnetId"`
	VPCID     string        `xml:"vpcId"`
	Status    string        `xml:"status"`
	PrivateIP string        `xml:"privateIpAddress"`
	Type      string        `xml:"interfaceType"`
	Groups    []xmlGroupRef `xml:"groupSet>item"`
	Device    int           `xml:"attachment>deviceIndex"`
	Card      int           `xml:"attachment>networkCardIndex"`
}

func (s *Service) xmlInstance(in *Instance, at time.Time) xmlInstance {
	state := in.State(at)
	x := xmlInstance{
		ID: in.ID, ImageID: in.ImageID, State: xmlState{stateCodes[state], state}, PrivateDNS: in.PrivateDNS,
		ClientToken: in.ClientToken, InstanceType: in.Type, LaunchTime: wire.Stamp(in.LaunchTime),
		Placement:  s.xmlPlacement(in),
		Monitoring: map[bool]string{true: "enabled", false: "disabled"}[in.Data.Monitoring],
		SubnetID:   in.SubnetID, VPCID: s.deps.VPC.VPCID, PrivateIP: in.PrivateIP, Groups: s.groupRefs(in.Groups),
		Architecture: strings.Replace(in.InstanceType().Arch(), "amd64", "x86_64", 1), RootType: "ebs", RootName: "/dev/xvda",
		Virtual: "hvm", SpotRequest: in.SpotRequestID, Tags: tag.List(in.Tags.At(at)), Hypervisor: "xen",
		Metadata: in.Data.Metadata, EBSOptimized: true, ENASupport: true,
		Reserved: s.reservationOf(in, at), Preference: in.Data.Reservation, Target: in.Data.ReservationID,
	}
	if in.CapacityType == "spot" {
		x.Lifecycle = "spot"
	}
	if in.Data.Market != "" {
		x.Lifecycle = in.Data.Market
	}
	if in.Data.Profile != "" {
		x.Profile = &xmlProfileRef{s.deps.Profiles.ProfileARN(in.Data.Profile), "AIPA" + strings.ToUpper(in.Data.Profile)}
	}
	if state == ShuttingDown || state == Terminated {
		x.StateReason = &xmlReason{in.TerminateReason, in.TerminateReason}
		x.Reason = in.TerminateReason
	}
	if state == Terminated { // EC2 forgets the network of a terminated instance
		x.SubnetID, x.VPCID, x.PrivateIP, x.PrivateDNS, x.Groups = "", "", "", "", nil
		return x
	}
	x.Devices, x.Interfaces = in.xmlDevices(), s.xmlInterfaces(in)
	return x
}

func (s *Service) xmlPlacement(in *Instance) xmlPlacement {
	x := xmlPlacement{Zone: in.Zone, ZoneID: in.ZoneID, Tenancy: cmp.Or(in.Data.Tenancy, "default")}
	if g, _ := s.deps.Groups.Find(in.PlacementGroup, ""); g != nil {
		x.GroupName, x.GroupID, x.Partition = g.Name, g.ID, placement.Number(in.Partition)
	}
	return x
}

func (in *Instance) xmlDevices() []xmlDevice {
	var out []xmlDevice
	for i, volume := range in.VolumeIDs {
		name := "/dev/xvda"
		if i < len(in.Data.Devices) {
			name = in.Data.Devices[i].Name
		}
		out = append(out, xmlDevice{name, volume, "attached"})
	}
	return out
}

func (s *Service) xmlInterfaces(in *Instance) []xmlInterface {
	out := []xmlInterface{{ID: in.InterfaceID, SubnetID: in.SubnetID, VPCID: s.deps.VPC.VPCID, Status: "in-use",
		PrivateIP: in.PrivateIP, Type: "interface", Groups: s.groupRefs(in.Groups)}}
	for i, data := range in.Data.Interfaces {
		if i == 0 {
			out[0].Type = cmp.Or(data.Type, "interface")
			continue
		}
		out = append(out, xmlInterface{ID: in.InterfaceID + strconv.Itoa(i), SubnetID: in.SubnetID, VPCID: s.deps.VPC.VPCID,
			Status: "in-use", Type: cmp.Or(data.Type, "interface"), Device: data.DeviceIndex, Card: data.CardIndex})
	}
	return out
}

func (s *Service) groupRefs(ids []string) []xmlGroupRef {
	var out []xmlGroupRef
	for _, id := range ids {
		if g := s.deps.VPC.Group(id); g != nil {
			out = append(out, xmlGroupRef{g.ID, g.Name})
		}
	}
	return out
}

type xmlReservation struct {
	ID        string        `xml:"reservationId"`
	Owner     string        `xml:"ownerId"`
	Instances []xmlInstance `xml:"instancesSet>item"`
}

func (s *Service) DescribeInstances(c *wire.Call) (any, error) {
	found, err := s.findInstances(c)
	if err != nil {
		return nil, err
	}
	if c.Params.Bool("DryRun") {
		return nil, wire.DryRun()
	}
	part, next, err := wire.Page(c, found, func(in *Instance) string { return in.ID }, wire.PageBounds{Least: 5, Most: 1000, Standard: 1000})
	if err != nil {
		return nil, err
	}
	answer := struct {
		Reservations []xmlReservation `xml:"reservationSet>item"`
		Next         string           `xml:"nextToken,omitempty"`
	}{Next: next}
	seen := s.Seen()
	for _, in := range part {
		answer.Reservations = append(answer.Reservations, xmlReservation{in.ReservationID, s.Cfg.AccountID,
			[]xmlInstance{s.xmlInstance(in, seen)}})
	}
	return answer, nil
}

// findInstances selects by ids and filters among what is visible. One unknown id fails the whole call.
func (s *Service) findInstances(c *wire.Call) ([]*Instance, *wire.Error) {
	s.forgetOld()
	ids := c.Params.Strs("InstanceId")
	if len(ids) > 0 && c.Params.Has("MaxResults") {
		return nil, wire.Refuse("InvalidParameterCombination", "The parameter instancesSet cannot be used with the parameter maxResults")
	}
	visible, err := s.visibleInstances(ids)
	if err != nil {
		return nil, err
	}
	filters, seen := wire.ReadFilters(c.Params), s.Seen()
	if err := wire.CheckFilters(filters, (&Instance{}).attributes(s, seen)); err != nil {
		return nil, err
	}
	var found []*Instance
	for _, in := range visible {
		ok, err := wire.Matches(filters, in.Tags.At(seen), in.attributes(s, seen))
		if err != nil {
			return nil, err
		}
		if ok {
			found = append(found, in)
		}
	}
	return found, nil
}

// visibleInstances are those that Describe* calls already see, by id; all of them without ids.
func (s *Service) visibleInstances(ids []string) ([]*Instance, *wire.Error) {
	seen := s.Seen()
	var out []*Instance
	for _, in := range s.instances.sorted() {
		if !in.LaunchTime.After(seen) && (len(ids) == 0 || slices.Contains(ids, in.ID)) {
			out = append(out, in)
		}
	}
	var missing []string
	for _, id := range ids {
		if !validInstanceID(id) {
			return nil, wire.Refuse("InvalidInstanceID.Malformed", `Invalid id: "%s"`, id)
		}
		if !slices.ContainsFunc(out, func(in *Instance) bool { return in.ID == id }) {
			missing = append(missing, id)
		}
	}
	if len(missing) > 0 {
		return nil, unknownInstances(missing)
	}
	return out, nil
}

func validInstanceID(id string) bool {
	hex, ok := strings.CutPrefix(id, "i-")
	return ok && (len(hex) == 8 || len(hex) == 17) && strings.Trim(hex, "0123456789abcdef") == ""
}

func unknownInstances(ids []string) *wire.Error {
	if len(ids) == 1 {
		return wire.Refuse("InvalidInstanceID.NotFound", "The instance ID '%s' does not exist", ids[0])
	}
	return wire.Refuse("InvalidInstanceID.NotFound", "The instance IDs '%s' do not exist", strings.Join(ids, ", "))
}

func (in *Instance) attributes(s *Service, at time.Time) wire.Attributes {
	return func(name string) ([]string, bool) {
		switch name {
		case "instance-id":
			return []string{in.ID}, true
		case "instance-state-name":
			return []string{in.State(at)}, true
		case "instance-state-code":
			return []string{strconv.Itoa(stateCodes[in.State(at)])}, true
		case "instance-type":
			return []string{in.Type}, true
		case "availability-zone":
			return []string{in.Zone}, true
		case "availability-zone-id":
			return []string{in.ZoneID}, true
		case "subnet-id":
			return []string{in.SubnetID}, true
		case "vpc-id":
			return []string{s.deps.VPC.VPCID}, true
		case "image-id":
			return []string{in.ImageID}, true
		case "private-dns-name":
			return []string{in.PrivateDNS}, true
		case "private-ip-address", "network-interface.addresses.private-ip-address":
			return []string{in.PrivateIP}, true
		case "client-token":
			return []string{in.ClientToken}, true
		case "spot-instance-request-id":
			return []string{in.SpotRequestID}, true
		case "placement-group-name":
			return []string{s.xmlPlacement(in).GroupName}, true
		case "placement-partition-number":
			return []string{placement.Number(in.Partition)}, true
		case "instance-lifecycle":
			if in.CapacityType == "spot" {
				return []string{"spot"}, true
			}
			return nil, true
		case "instance.group-id", "network-interface.group-id":
			return in.Groups, true
		case "iam-instance-profile.name":
			return []string{in.Data.Profile}, true
		case "reservation-id":
			return []string{in.ReservationID}, true
		case "tag-value":
			return nil, true
		}
		return nil, false
	}
}

// forgetOld drops instances terminated longer ago than EC2 remembers.
func (s *Service) forgetOld() {
	for _, id := range s.instances.forget(s.Now().Add(-time.Duration(s.Settings.Retention))) {
		s.Drop("instance", id)
	}
}
