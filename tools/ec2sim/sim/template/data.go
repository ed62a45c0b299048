package template

import (
	"cmp"
	"encoding/base64"

	"millwright/tools/ec2sim/sim/tag"
	"millwright/tools/ec2sim/sim/wire"
)

// Data is what a launch template, or RunInstances itself, says about an instance.
type Data struct {
	ImageID        string                       `json:"imageId,omitempty"`
	InstanceType   string                       `json:"instanceType,omitempty"`
	Profile        string                       `json:"profile,omitempty"`
	UserData       string                       `json:"userData,omitempty"` // base64
	Groups         []string                     `json:"groups,omitempty"`
	Interfaces     []Interface                  `json:"interfaces,omitempty"`
	Devices        []deviceData                 `json:"devices,omitempty"`
	Metadata       *MetadataData                `json:"metadata,omitempty"`
	Monitoring     bool                         `json:"monitoring,omitempty"`
	Tenancy        string                       `json:"tenancy,omitempty"`
	TagsByResource map[string]map[string]string `json:"tagsByResource,omitempty"`
	Reservation    string                       `json:"reservation,omitempty"`   // capacity reservation preference
	ReservationID  string                       `json:"reservationId,omitempty"` // capacity reservation targeted
	Market         string                       `json:"market,omitempty"`        // market type
	Nested         string                       `json:"nested,omitempty"`
	GroupID        string                       `json:"groupId,omitempty"` // placement group, by id or by name
	GroupName      string                       `json:"groupName,omitempty"`
	Partition      int                          `json:"partition,omitempty"`
}

type deviceData struct {
	Name      string `json:"name" xml:"deviceName"`
	Size      int    `json:"size,omitempty" xml:"ebs>volumeSize,omitempty"`
	Type      string `json:"type,omitempty" xml:"ebs>volumeType,omitempty"`
	Encrypted string `json:"encrypted,omitempty" xml:"ebs>encrypted,omitempty"`
}

// MetadataData are the options of the instance metadata service.
type MetadataData struct {
	Endpoint string `json:"endpoint,omitempty" xml:"httpEndpoint,omitempty"`
	IPv6     string `json:"ipv6,omitempty" xml:"httpProtocolIpv6,omitempty"`
	HopLimit string `json:"hopLimit,omitempty" xml:"httpPutResponseHopLimit,omitempty"`
	Tokens   string `json:"tokens,omitempty" xml:"httpTokens,omitempty"`
	Tags     string `json:"tags,omitempty" xml:"instanceMetadataTags,omitempty"`
}

// maxUserData is EC2's limit on the decoded bytes.
const maxUserData = 16384

// Read reads the fields that launch templates and RunInstances have in common.
func Read(p *wire.Params) (Data, *wire.Error) {
	d := Data{
		ImageID: p.Str("ImageId"), InstanceType: p.Str("InstanceType"), UserData: p.Str("UserData"),
		Profile: cmp.Or(p.Str("IamInstanceProfile.Name"), wire.LastSegment(p.Str("IamInstanceProfile.Arn"))),
		Groups:  append(p.Strs("SecurityGroupId"), p.Strs("SecurityGroup")...), Monitoring: p.Bool("Monitoring.Enabled"),
		Tenancy: p.Str("Placement.Tenancy"), TagsByResource: p.TagSpecifications(),
		Reservation:   p.Str("CapacityReservationSpecification.CapacityReservationPreference"),
		ReservationID: p.Str("CapacityReservationSpecification.CapacityReservationTarget.CapacityReservationId"),
		Market:        p.Str("InstanceMarketOptions.MarketType"),
		Nested:        p.Str("CpuOptions.NestedVirtualization"),
		GroupID:       p.Str("Placement.GroupId"), GroupName: p.Str("Placement.GroupName"),
	}
	var err *wire.Error
	if d.Partition, err = p.Int("Placement.PartitionNumber", 0); err != nil {
		return d, err
	}
	if d.GroupID != "" && d.GroupName != "" {
		return d, wire.Refuse("InvalidParameterCombination", "You cannot specify both GroupName and GroupId.")
	}
	for _, spec := range p.List("TagSpecification") {
		if err := tag.Check(spec, "Tag"); err != nil {
			return d, err
		}
	}
	if err := CheckUserData(d.UserData); err != nil {
		return d, err
	}
	if d.ReservationID != "" && d.Reservation != "" && d.Reservation != "capacity-reservations-only" {
		return d, wire.Refuse("InvalidParameterCombination", "A capacity reservation target cannot be combined with the preference '%s'.", d.Reservation)
	}
	if m := p.At("MetadataOptions"); m != nil {
		d.Metadata = &MetadataData{m.Str("HttpEndpoint"), m.Str("HttpProtocolIpv6"), m.Str("HttpPutResponseHopLimit"),
			m.Str("HttpTokens"), m.Str("InstanceMetadataTags")}
	}
	return d, d.readParts(p)
}

func (d *Data) readParts(p *wire.Params) *wire.Error {
	for _, n := range p.List("NetworkInterface") {
		i, err := readInterface(n)
		if err != nil {
			return err
		}
		d.Interfaces = append(d.Interfaces, i)
	}
	for _, n := range p.List("BlockDeviceMapping") {
		size, err := n.Int("Ebs.VolumeSize", 0)
		if err != nil {
			return err
		}
		d.Devices = append(d.Devices, deviceData{n.Str("DeviceName"), size, n.Str("Ebs.VolumeType"), n.Str("Ebs.Encrypted")})
	}
	if len(d.Interfaces) > 0 && len(d.Groups) > 0 {
		return wire.Refuse("InvalidParameterCombination",
			"Network interfaces and an instance-level security groups may not be specified on the same request")
	}
	return nil
}

// CheckUserData applies EC2's rules to user data.
func CheckUserData(encoded string) *wire.Error {
	raw, err := base64.StdEncoding.DecodeString(encoded)
	if err != nil {
		return wire.Refuse("InvalidUserData.Malformed", "Invalid BASE64 encoding of user data.")
	}
	if len(raw) > maxUserData {
		return wire.Refuse("InvalidUserData.Malformed", "User data is limited to %d bytes", maxUserData)
	}
	return nil
}

// PrimaryGroups are those of the primary interface, else the instance-level ones.
func (d *Data) PrimaryGroups() []string {
	for _, i := range d.Interfaces {
		if i.DeviceIndex == 0 && i.CardIndex == 0 && len(i.Groups) > 0 {
			return i.Groups
		}
	}
	return d.Groups
}
