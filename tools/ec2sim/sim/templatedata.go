package sim

import (
	"encoding/base64"
	"strings"
)

// templateData is what a launch template, or RunInstances itself, says about an instance.
type templateData struct {
	ImageID        string                       `json:"imageId,omitempty"`
	InstanceType   string                       `json:"instanceType,omitempty"`
	Profile        string                       `json:"profile,omitempty"`
	UserData       string                       `json:"userData,omitempty"` // base64
	Groups         []string                     `json:"groups,omitempty"`
	Interfaces     []interfaceData              `json:"interfaces,omitempty"`
	Devices        []deviceData                 `json:"devices,omitempty"`
	Metadata       *metadataData                `json:"metadata,omitempty"`
	Monitoring     bool                         `json:"monitoring,omitempty"`
	Tenancy        string                       `json:"tenancy,omitempty"`
	TagsByResource map[string]map[string]string `json:"tagsByResource,omitempty"`
	Reservation    string                       `json:"reservation,omitempty"`   // capacity reservation preference
	ReservationID  string                       `json:"reservationId,omitempty"` // capacity reservation targeted
	Nested         string                       `json:"nested,omitempty"`
}

type interfaceData struct {
	DeviceIndex int      `json:"deviceIndex" xml:"deviceIndex"`
	CardIndex   int      `json:"cardIndex" xml:"networkCardIndex"`
	Type        string   `json:"type,omitempty" xml:"interfaceType,omitempty"`
	Groups      []string `json:"groups,omitempty" xml:"groupSet>groupId,omitempty"`
	SubnetID    string   `json:"subnetId,omitempty" xml:"subnetId,omitempty"`
	PublicIP    string   `json:"publicIp,omitempty" xml:"associatePublicIpAddress,omitempty"`
}

type deviceData struct {
	Name      string `json:"name" xml:"deviceName"`
	Size      int    `json:"size,omitempty" xml:"ebs>volumeSize,omitempty"`
	Type      string `json:"type,omitempty" xml:"ebs>volumeType,omitempty"`
	Encrypted string `json:"encrypted,omitempty" xml:"ebs>encrypted,omitempty"`
}

type metadataData struct {
	Endpoint string `json:"endpoint,omitempty" xml:"httpEndpoint,omitempty"`
	IPv6     string `json:"ipv6,omitempty" xml:"httpProtocolIpv6,omitempty"`
	HopLimit string `json:"hopLimit,omitempty" xml:"httpPutResponseHopLimit,omitempty"`
	Tokens   string `json:"tokens,omitempty" xml:"httpTokens,omitempty"`
	Tags     string `json:"tags,omitempty" xml:"instanceMetadataTags,omitempty"`
}

// maxUserData is EC2's limit on the decoded bytes.
const maxUserData = 16384

// readTemplateData reads the fields that launch templates and RunInstances have in common.
func readTemplateData(p *params) (templateData, *Error) {
	d := templateData{
		ImageID: p.str("ImageId"), InstanceType: p.str("InstanceType"), UserData: p.str("UserData"),
		Profile: orElse(p.str("IamInstanceProfile.Name"), lastSegment(p.str("IamInstanceProfile.Arn"))),
		Groups:  append(p.strs("SecurityGroupId"), p.strs("SecurityGroup")...), Monitoring: p.bool("Monitoring.Enabled"),
		Tenancy: p.str("Placement.Tenancy"), TagsByResource: p.tagSpecifications(),
		Reservation:   p.str("CapacityReservationSpecification.CapacityReservationPreference"),
		ReservationID: p.str("CapacityReservationSpecification.CapacityReservationTarget.CapacityReservationId"),
		Nested:        p.str("CpuOptions.NestedVirtualization"),
	}
	for _, spec := range p.list("TagSpecification") {
		if err := checkTags(spec, "Tag"); err != nil {
			return d, err
		}
	}
	if err := checkUserData(d.UserData); err != nil {
		return d, err
	}
	if d.ReservationID != "" && d.Reservation != "" && d.Reservation != "capacity-reservations-only" {
		return d, refuse("InvalidParameterCombination", "A capacity reservation target cannot be combined with the preference '%s'.", d.Reservation)
	}
	if m := p.at("MetadataOptions"); m != nil {
		d.Metadata = &metadataData{m.str("HttpEndpoint"), m.str("HttpProtocolIpv6"), m.str("HttpPutResponseHopLimit"),
			m.str("HttpTokens"), m.str("InstanceMetadataTags")}
	}
	return d, d.readParts(p)
}

func (d *templateData) readParts(p *params) *Error {
	for _, n := range p.list("NetworkInterface") {
		device, err := n.int("DeviceIndex", 0)
		card, err2 := n.int("NetworkCardIndex", 0)
		if err != nil || err2 != nil {
			return invalidValue("Invalid device or network card index.")
		}
		d.Interfaces = append(d.Interfaces, interfaceData{device, card, n.str("InterfaceType"), n.strs("SecurityGroupId"),
			n.str("SubnetId"), n.str("AssociatePublicIpAddress")})
	}
	for _, n := range p.list("BlockDeviceMapping") {
		size, err := n.int("Ebs.VolumeSize", 0)
		if err != nil {
			return err
		}
		d.Devices = append(d.Devices, deviceData{n.str("DeviceName"), size, n.str("Ebs.VolumeType"), n.str("Ebs.Encrypted")})
	}
	if len(d.Interfaces) > 0 && len(d.Groups) > 0 {
		return refuse("InvalidParameterCombination",
			"Network interfaces and an instance-level security groups may not be specified on the same request")
	}
	return nil
}

func checkUserData(encoded string) *Error {
	raw, err := base64.StdEncoding.DecodeString(encoded)
	if err != nil {
		return refuse("InvalidUserData.Malformed", "Invalid BASE64 encoding of user data.")
	}
	if len(raw) > maxUserData {
		return refuse("InvalidUserData.Malformed", "User data is limited to %d bytes", maxUserData)
	}
	return nil
}

// groups are those of the primary interface, else the instance-level ones.
func (d *templateData) groups() []string {
	for _, i := range d.Interfaces {
		if i.DeviceIndex == 0 && i.CardIndex == 0 && len(i.Groups) > 0 {
			return i.Groups
		}
	}
	return d.Groups
}

// EFAs counts the Elastic Fabric Adapters asked for.
func (d *templateData) EFAs() int {
	n := 0
	for _, i := range d.Interfaces {
		if strings.HasPrefix(i.Type, "efa") {
			n++
		}
	}
	return n
}

func lastSegment(arn string) string { return arn[strings.LastIndex(arn, "/")+1:] }
