package sim

import (
	"slices"
	"strconv"
	"strings"
	"time"
)

type xmlInstance struct {
	ID           string         `xml:"instanceId"`
	ImageID      string         `xml:"imageId"`
	State        xmlState       `xml:"instanceState"`
	PrivateDNS   string         `xml:"privateDnsName"`
	Reason       string         `xml:"reason,omitempty"`
	StateReason  *xmlReason     `xml:"stateReason,omitempty"`
	ClientToken  string         `xml:"clientToken,omitempty"`
	InstanceType string         `xml:"instanceType"`
	LaunchTime   string         `xml:"launchTime"`
	Placement    xmlPlacement   `xml:"placement"`
	Monitoring   string         `xml:"monitoring>state"`
	SubnetID     string         `xml:"subnetId,omitempty"`
	VPCID        string         `xml:"vpcId,omitempty"`
	PrivateIP    string         `xml:"privateIpAddress,omitempty"`
	Groups       []xmlGroupRef  `xml:"groupSet>item"`
	Architecture string         `xml:"architecture"`
	RootType     string         `xml:"rootDeviceType"`
	RootName     string         `xml:"rootDeviceName"`
	Devices      []xmlDevice    `xml:"blockDeviceMapping>item"`
	Virtual      string         `xml:"virtualizationType"`
	Lifecycle    string         `xml:"instanceLifecycle,omitempty"`
	SpotRequest  string         `xml:"spotInstanceRequestId,omitempty"`
	Reserved     string         `xml:"capacityReservationId,omitempty"`
	Preference   string         `xml:"capacityReservationSpecification>capacityReservationPreference,omitempty"`
	Target       string         `xml:"capacityReservationSpecification>capacityReservationTarget>capacityReservationId,omitempty"`
	Tags         []xmlTag       `xml:"tagSet>item"`
	Hypervisor   string         `xml:"hypervisor"`
	Profile      *xmlProfileRef `xml:"iamInstanceProfile,omitempty"`
	Interfaces   []xmlInterface `xml:"networkInterfaceSet>item"`
	Metadata     *metadataData  `xml:"metadataOptions,omitempty"`
	EBSOptimized bool           `xml:"ebsOptimized"`
	ENASupport   bool           `xml:"enaSupport"`
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

func (s *Server) xmlInstance(in *Instance, at time.Time) xmlInstance {
	state := in.State(at)
	x := xmlInstance{
		ID: in.ID, ImageID: in.ImageID, State: xmlState{stateCodes[state], state}, PrivateDNS: in.PrivateDNS,
		ClientToken: in.ClientToken, InstanceType: in.Type, LaunchTime: stamp(in.LaunchTime),
		Placement:  xmlPlacement{in.Zone, in.ZoneID, orElse(in.Data.Tenancy, "default")},
		Monitoring: map[bool]string{true: "enabled", false: "disabled"}[in.Data.Monitoring],
		SubnetID:   in.SubnetID, VPCID: s.network.vpcID, PrivateIP: in.PrivateIP, Groups: s.groupRefs(in.Groups),
		Architecture: strings.Replace(in.InstanceType().Arch(), "amd64", "x86_64", 1), RootType: "ebs", RootName: "/dev/xvda",
		Virtual: "hvm", SpotRequest: in.SpotRequestID, Tags: xmlTags(in.Tags.at(at)), Hypervisor: "xen",
		Metadata: in.Data.Metadata, EBSOptimized: true, ENASupport: true,
		Reserved: s.reservationOf(in, at), Preference: in.Data.Reservation, Target: in.Data.ReservationID,
	}
	if in.CapacityType == "spot" {
		x.Lifecycle = "spot"
	}
	if in.Data.Profile != "" {
		x.Profile = &xmlProfileRef{s.profileARN(in.Data.Profile), "AIPA" + strings.ToUpper(in.Data.Profile)}
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

func (s *Server) xmlInterfaces(in *Instance) []xmlInterface {
	out := []xmlInterface{{ID: in.InterfaceID, SubnetID: in.SubnetID, VPCID: s.network.vpcID, Status: "in-use",
		PrivateIP: in.PrivateIP, Type: "interface", Groups: s.groupRefs(in.Groups)}}
	for i, data := range in.Data.Interfaces {
		if i == 0 {
			out[0].Type = orElse(data.Type, "interface")
			continue
		}
		out = append(out, xmlInterface{ID: in.InterfaceID + strconv.Itoa(i), SubnetID: in.SubnetID, VPCID: s.network.vpcID,
			Status: "in-use", Type: orElse(data.Type, "interface"), Device: data.DeviceIndex, Card: data.CardIndex})
	}
	return out
}

func (s *Server) groupRefs(ids []string) []xmlGroupRef {
	var out []xmlGroupRef
	for _, id := range ids {
		if g := s.network.group(id); g != nil {
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

func describeInstances(s *Server, c *call) (any, error) {
	found, err := s.findInstances(c)
	if err != nil {
		return nil, err
	}
	if c.params.bool("DryRun") {
		return nil, dryRun()
	}
	part, next, err := page(c, found, func(in *Instance) string { return in.ID }, pageBounds{5, 1000, 1000})
	if err != nil {
		return nil, err
	}
	answer := struct {
		Reservations []xmlReservation `xml:"reservationSet>item"`
		Next         string           `xml:"nextToken,omitempty"`
	}{Next: next}
	seen := s.seen()
	for _, in := range part {
		answer.Reservations = append(answer.Reservations, xmlReservation{in.ReservationID, s.cfg.AccountID,
			[]xmlInstance{s.xmlInstance(in, seen)}})
	}
	return answer, nil
}

// findInstances selects by ids and filters among what is visible. One unknown id fails the whole call.
func (s *Server) findInstances(c *call) ([]*Instance, *Error) {
	s.forgetOld()
	ids := c.params.strs("InstanceId")
	if len(ids) > 0 && c.params.has("MaxResults") {
		return nil, refuse("InvalidParameterCombination", "The parameter instancesSet cannot be used with the parameter maxResults")
	}
	visible, err := s.visibleInstances(ids)
	if err != nil {
		return nil, err
	}
	filters, seen := readFilters(c.params), s.seen()
	if err := checkFilters(filters, (&Instance{}).attributes(s, seen)); err != nil {
		return nil, err
	}
	var found []*Instance
	for _, in := range visible {
		ok, err := matches(filters, in.Tags.at(seen), in.attributes(s, seen))
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
func (s *Server) visibleInstances(ids []string) ([]*Instance, *Error) {
	seen := s.seen()
	var out []*Instance
	for _, in := range s.instances.sorted() {
		if !in.LaunchTime.After(seen) && (len(ids) == 0 || slices.Contains(ids, in.ID)) {
			out = append(out, in)
		}
	}
	var missing []string
	for _, id := range ids {
		if !validInstanceID(id) {
			return nil, refuse("InvalidInstanceID.Malformed", `Invalid id: "%s"`, id)
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

func unknownInstances(ids []string) *Error {
	if len(ids) == 1 {
		return refuse("InvalidInstanceID.NotFound", "The instance ID '%s' does not exist", ids[0])
	}
	return refuse("InvalidInstanceID.NotFound", "The instance IDs '%s' do not exist", strings.Join(ids, ", "))
}

func (in *Instance) attributes(s *Server, at time.Time) attributes {
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
			return []string{s.network.vpcID}, true
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
func (s *Server) forgetOld() {
	for _, id := range s.instances.forget(s.now().Add(-time.Duration(s.settings.Retention))) {
		s.drop("instance", id)
	}
}
