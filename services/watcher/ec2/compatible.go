package ec2

import (
	"fmt"
	"slices"
	"strings"

	"github.com/aws/aws-sdk-go-v2/aws"
	ec2types "github.com/aws/aws-sdk-go-v2/service/ec2/types"

	karpawsv1 "millwright/api/karpenteraws/v1"
)

// unusable says why the NodeClass can launch nothing of the type; "" if it can (ec2 §1.4).
func (s *sizing) unusable(t *ec2types.InstanceTypeInfo) string {
	if s.family.name == karpawsv1.AMIFamilyAL2023 && strings.HasPrefix(string(t.InstanceType), "a1.") {
		return "AL2023 does not run on it"
	}
	for _, why := range []string{s.lacksInterfaces(t), s.lacksPrefixes(t), s.lacksPlacement(t)} {
		if why != "" {
			return why
		}
	}
	if s.nested && (t.ProcessorInfo == nil || !slices.Contains(t.ProcessorInfo.SupportedFeatures, ec2types.SupportedAdditionalProcessorFeatureNestedVirtualization)) {
		return "cpuOptions: it has no nested virtualization"
	}
	if s.tracking && t.Hypervisor != ec2types.InstanceTypeHypervisorNitro {
		return "connectionTracking: its hypervisor is not nitro"
	}
	return ""
}

// lacksInterfaces: the type has not the cards and interfaces that the class names.
func (s *sizing) lacksInterfaces(t *ec2types.InstanceTypeInfo) string {
	if len(s.interfaces) == 0 {
		return ""
	}
	n := t.NetworkInfo
	if n == nil || len(n.NetworkCards) == 0 {
		return "networkInterfaces: nothing is known of its network cards"
	}
	if n.EnaSupport == ec2types.EnaSupportUnsupported {
		return "networkInterfaces: it has no elastic network adapter"
	}
	for _, want := range s.interfaces {
		card := slices.IndexFunc(n.NetworkCards, func(c ec2types.NetworkCardInfo) bool { return aws.ToInt32(c.NetworkCardIndex) == want.NetworkCardIndex })
		if card < 0 {
			return fmt.Sprintf("networkInterfaces: it has no network card %d", want.NetworkCardIndex)
		}
		if want.DeviceIndex >= aws.ToInt32(n.NetworkCards[card].MaximumNetworkInterfaces) {
			return fmt.Sprintf("networkInterfaces: its network card %d has no interface %d", want.NetworkCardIndex, want.DeviceIndex)
		}
	}
	if most := efaMax(t); int64(s.efaOnly()) > most {
		return fmt.Sprintf("networkInterfaces: it has %d of %d EFA interfaces", most, s.efaOnly())
	}
	return ""
}

// lacksPrefixes: the primary interface cannot have so many. A prefix takes the place of one of its secondary
// addresses, and only nitro has them; bare metal, which has no hypervisor, is built upon nitro.
func (s *sizing) lacksPrefixes(t *ec2types.InstanceTypeInfo) string {
	if s.prefixes == 0 {
		return ""
	}
	if t.Hypervisor != ec2types.InstanceTypeHypervisorNitro && !aws.ToBool(t.BareMetal) {
		return "ipPrefixCount: its hypervisor is not nitro"
	}
	if n := t.NetworkInfo; n != nil && n.Ipv4AddressesPerInterface != nil && s.prefixes >= *n.Ipv4AddressesPerInterface {
		return fmt.Sprintf("ipPrefixCount: its interfaces hold %d prefixes", *n.Ipv4AddressesPerInterface-1)
	}
	return ""
}

// efaOnly counts the EFA interfaces that the class names.
func (s *sizing) efaOnly() int {
	n := 0
	for _, i := range s.interfaces {
		if i.InterfaceType == karpawsv1.InterfaceTypeEFAOnly {
			n++
		}
	}
	return n
}

// efaOnFirstCard counts those on the card whose addresses pods get.
func (s *sizing) efaOnFirstCard() int64 {
	n := int64(0)
	for _, i := range s.interfaces {
		if i.InterfaceType == karpawsv1.InterfaceTypeEFAOnly && i.NetworkCardIndex == 0 {
			n++
		}
	}
	return n
}

func efaMax(t *ec2types.InstanceTypeInfo) int64 {
	if t.NetworkInfo == nil || t.NetworkInfo.EfaInfo == nil {
		return 0
	}
	return int64(aws.ToInt32(t.NetworkInfo.EfaInfo.MaximumEfaInterfaces))
}
