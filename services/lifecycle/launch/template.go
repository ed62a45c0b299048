package launch

import (
	"cmp"
	"crypto/sha256"
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/aws/aws-sdk-go-v2/aws"
	ec2types "github.com/aws/aws-sdk-go-v2/service/ec2/types"

	awsv1 "millwright/api/karpenteraws/v1"
	"millwright/services/internal/ec2"
	"millwright/services/lifecycle/launch/userdata"
)

const (
	// templatePrefix of the names of launch templates; a hash of the whole content follows.
	templatePrefix = "karpenter.k8s.aws/"
	resourceEFA    = "vpc.amazonaws.com/efa"
)

// group is the candidates that can share a launch template (userdata §1).
type group struct {
	image   awsv1.AMI
	maxPods int32
	efas    int64
	// reservation of capacity that the template targets; "" if none.
	reservation string
	members     []Candidate
}

// groups splits the candidates by image, pod capacity, number of EFA interfaces and capacity reservation; in
// order of their first, cheapest member.
func groups(in Input, s Selection) []group {
	var out []group
	for _, c := range s.Candidates {
		maxPods, efas := maxPodsOf(in.NodeClass, c), efasOf(in, c)
		for _, part := range byReservation(c) {
			id := part.Offerings[0].ReservationID
			i := slices.IndexFunc(out, func(g group) bool {
				return g.image.ID == c.Image.ID && g.maxPods == maxPods && g.efas == efas && g.reservation == id
			})
			if i < 0 {
				i, out = len(out), append(out, group{image: c.Image, maxPods: maxPods, efas: efas, reservation: id})
			}
			out[i].members = append(out[i].members, part)
		}
	}
	return out
}

// byReservation splits a candidate by the reservations of its offerings, in their order.
func byReservation(c Candidate) []Candidate {
	var out []Candidate
	for _, o := range c.Offerings {
		i := slices.IndexFunc(out, func(p Candidate) bool { return p.Offerings[0].ReservationID == o.ReservationID })
		if i < 0 {
			i, out = len(out), append(out, Candidate{Type: c.Type, Image: c.Image})
		}
		out[i].Offerings = append(out[i].Offerings, o)
	}
	return out
}

func maxPodsOf(nc *awsv1.EC2NodeClass, c Candidate) int32 {
	if k := nc.Spec.Kubelet; k != nil && k.MaxPods != nil {
		return *k.MaxPods
	}
	return int32(min(c.Type.Capacity.Pods, 1<<31-1))
}

// efasOf is the number of EFA interfaces that follow from what the claim requests; none if the class names
// its interfaces.
func efasOf(in Input, c Candidate) int64 {
	if q, ok := in.Claim.Spec.Resources.Requests[resourceEFA]; !ok || q.IsZero() || len(in.NodeClass.Spec.NetworkInterfaces) > 0 {
		return 0
	}
	return c.Type.Capacity.Get(resourceEFA)
}

// template returns the launch template of a group.
func template(in Input, s Selection, g group, cluster Cluster, region string) (ec2.LaunchTemplate, error) {
	text, err := userData(in, s, g, cluster)
	if err != nil {
		return ec2.LaunchTemplate{}, err
	}
	nc := in.NodeClass
	family := awsv1.AMIFamilyOf(nc)
	tags := resourceTags(in, cluster)
	data := &ec2types.RequestLaunchTemplateData{
		ImageId:             aws.String(g.image.ID),
		UserData:            aws.String(base64.StdEncoding.EncodeToString(text)),
		BlockDeviceMappings: blockDevices(nc, family),
		IamInstanceProfile:  &ec2types.LaunchTemplateIamInstanceProfileSpecificationRequest{Name: aws.String(nc.Status.InstanceProfile)},
		Monitoring:          &ec2types.LaunchTemplatesMonitoringRequest{Enabled: aws.Bool(aws.ToBool(nc.Spec.DetailedMonitoring))},
		MetadataOptions:     metadataOptions(nc.Spec.MetadataOptions, region),
		NetworkInterfaces:   networkInterfaces(nc, g.efas, isIPv6(cluster.DNS)),
		TagSpecifications:   templateTags(tags, s.CapacityType),
	}
	if nested(nc) {
		data.CpuOptions = &ec2types.LaunchTemplateCpuOptionsRequest{NestedVirtualization: ec2types.NestedVirtualizationSpecificationEnabled}
	}
	data.CapacityReservationSpecification, data.InstanceMarketOptions = reservationSpec(g.reservation), marketOptions(s.kind)
	data.Placement = placement(s)
	name, err := templateName(data, tags)
	return ec2.LaunchTemplate{Name: name, Data: data, Tags: tags}, err
}

// reservationSpec targets a capacity reservation, or keeps out of open ones (ec2 §4.4).
func reservationSpec(id string) *ec2types.LaunchTemplateCapacityReservationSpecificationRequest {
	if id == "" {
		return &ec2types.LaunchTemplateCapacityReservationSpecificationRequest{CapacityReservationPreference: ec2types.CapacityReservationPreferenceNone}
	}
	return &ec2types.LaunchTemplateCapacityReservationSpecificationRequest{
		CapacityReservationPreference: ec2types.CapacityReservationPreferenceCapacityReservationsOnly,
		CapacityReservationTarget:     &ec2types.CapacityReservationTarget{CapacityReservationId: aws.String(id)},
	}
}

// marketOptions name the kind of a capacity reservation where EC2 wants to be told.
func marketOptions(kind int) *ec2types.LaunchTemplateInstanceMarketOptionsRequest {
	switch kind {
	case capacityBlock:
		return &ec2types.LaunchTemplateInstanceMarketOptionsRequest{MarketType: ec2types.MarketTypeCapacityBlock}
	case interruptibleReservation:
		return &ec2types.LaunchTemplateInstanceMarketOptionsRequest{MarketType: ec2types.MarketTypeInterruptibleCapacityReservation}
	}
	return nil
}

// userData packs what the instances of a group boot with.
func userData(in Input, s Selection, g group, cluster Cluster) ([]byte, error) {
	family := awsv1.AMIFamilyOf(in.NodeClass)
	k := kubelet(in.NodeClass, &g.maxPods, cluster.DNS)
	text, err := userdata.Render(userDataInput(in.NodeClass, in.Claim, cluster, s.CapacityType, k, g.image.Name))
	if err == nil {
		text, err = userdata.Pack(family, text)
	}
	switch {
	case err == nil:
		return text, nil
	case errors.Is(err, userdata.ErrTooLarge):
		return nil, &ec2.Failure{Class: ec2.Permanent, Reason: "UserDataSizeLimitExceeded", Err: err,
			Message: fmt.Sprintf("spec.userData of EC2NodeClass %s: %s", in.NodeClass.Name, err)}
	case family == awsv1.AMIFamilyAL2023 && cluster.CIDR == "":
		return nil, &ec2.Failure{Class: ec2.NotReady, Reason: "NodeClassNotReady", Message: "resolving cluster CIDR", Err: err}
	}
	return nil, &ec2.Failure{Class: ec2.Permanent, Reason: "LaunchFailed", Message: err.Error(), Err: err}
}

// kubelet returns the NodeClass's kubelet block with the defaults added at launch.
func kubelet(nc *awsv1.EC2NodeClass, maxPods *int32, dns string) awsv1.KubeletConfiguration {
	var k awsv1.KubeletConfiguration
	if nc.Spec.Kubelet != nil {
		k = *nc.Spec.Kubelet.DeepCopy()
	}
	if k.MaxPods == nil {
		k.MaxPods = maxPods
	}
	if len(k.ClusterDNS) == 0 && dns != "" {
		k.ClusterDNS = []string{dns}
	}
	return k
}

// nested: virtual machines may run inside the instances. EC2 leaves that off by itself, and most types do not
// know of it, so that only what switches it on is sent.
func nested(nc *awsv1.EC2NodeClass) bool {
	o := nc.Spec.CPUOptions
	return o != nil && aws.ToString(o.NestedVirtualization) == awsv1.NestedVirtualizationEnabled
}

func raid0(nc *awsv1.EC2NodeClass) bool {
	p := nc.Spec.InstanceStorePolicy
	return p != nil && *p == awsv1.InstanceStorePolicyRAID0
}

// templateName hashes everything in the template: equal names mean equal content.
func templateName(data *ec2types.RequestLaunchTemplateData, tags map[string]string) (string, error) {
	b, err := json.Marshal(struct {
		Data *ec2types.RequestLaunchTemplateData
		Tags map[string]string
	}{data, tags})
	if err != nil {
		return "", fmt.Errorf("hash launch template: %w", err)
	}
	sum := sha256.Sum256(b)
	return templatePrefix + hex.EncodeToString(sum[:16]), nil
}

// metadataOptions fills in the defaults of the API.
func metadataOptions(m *awsv1.MetadataOptions, region string) *ec2types.LaunchTemplateInstanceMetadataOptionsRequest {
	if m == nil {
		m = &awsv1.MetadataOptions{}
	}
	out := &ec2types.LaunchTemplateInstanceMetadataOptionsRequest{
		HttpEndpoint:            ec2types.LaunchTemplateInstanceMetadataEndpointState(cmp.Or(aws.ToString(m.HTTPEndpoint), "enabled")),
		HttpProtocolIpv6:        ec2types.LaunchTemplateInstanceMetadataProtocolIpv6(cmp.Or(aws.ToString(m.HTTPProtocolIPv6), "disabled")),
		HttpPutResponseHopLimit: aws.Int32(int32(cmp.Or(aws.ToInt64(m.HTTPPutResponseHopLimit), 1))),
		HttpTokens:              ec2types.LaunchTemplateHttpTokensState(cmp.Or(aws.ToString(m.HTTPTokens), "required")),
		InstanceMetadataTags:    ec2types.LaunchTemplateInstanceMetadataTagsStateDisabled,
	}
	if strings.HasPrefix(region, "us-iso") {
		out.HttpProtocolIpv6 = "" // unknown there
	}
	return out
}
