package requirement

import (
	"fmt"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"

	karpv1 "millwright/api/karpenter/v1"
	awsv1 "millwright/api/karpenteraws/v1"
)

// Keys is a sorted list of label keys.
type Keys []string

// WellKnown names the keys that may be required although no template defines them: each node gets a value.
type WellKnown = Keys

// Has reports that key is one of k.
func (k Keys) Has(key string) bool {
	_, found := slices.BinarySearch(k, key)
	return found
}

// NoneKnown is for existing nodes: a label that is missing has no value.
var NoneKnown WellKnown

// AllKnown is for templates, claims and offerings.
var AllKnown = sorted(
	karpv1.NodePoolLabelKey, karpv1.CapacityTypeLabelKey,
	corev1.LabelTopologyZone, corev1.LabelTopologyRegion, corev1.LabelInstanceTypeStable,
	corev1.LabelArchStable, corev1.LabelOSStable, corev1.LabelWindowsBuild,
	awsv1.LabelTopologyZoneID,
	awsv1.LabelInstanceCategory, awsv1.LabelInstanceFamily, awsv1.LabelInstanceGeneration, awsv1.LabelInstanceSize,
	awsv1.LabelInstanceCPU, awsv1.LabelInstanceCPUManufacturer, awsv1.LabelInstanceCPUSustainedClockMHz,
	awsv1.LabelInstanceMemory, awsv1.LabelInstanceEBSBandwidth, awsv1.LabelInstanceNetworkBandwidth,
	awsv1.LabelInstanceLocalNVME, awsv1.LabelInstanceHypervisor, awsv1.LabelInstanceEncryptionInTransit,
	awsv1.LabelInstanceGPUName, awsv1.LabelInstanceGPUManufacturer, awsv1.LabelInstanceGPUCount, awsv1.LabelInstanceGPUMemory,
	awsv1.LabelInstanceAcceleratorName, awsv1.LabelInstanceAcceleratorManufacturer, awsv1.LabelInstanceAcceleratorCount,
	awsv1.LabelInstanceCapabilityFlex, awsv1.LabelInstanceTenancy,
	awsv1.LabelCapacityReservationID, awsv1.LabelCapacityReservationType, awsv1.LabelCapacityReservationInterruptible,
	awsv1.LabelPlacementGroupID, awsv1.LabelPlacementGroupPartition,
)

// RestrictedDomains are the domains whose keys only Millwright itself sets on nodes, unless well-known.
var RestrictedDomains = sorted(karpv1.Group, awsv1.Group)

func sorted(keys ...string) Keys {
	slices.Sort(keys)
	return keys
}

// Restricted reports that users may not put requirements or labels on key: the hostname, and keys of
// Karpenter's domains or their subdomains that are not well-known.
func Restricted(key string) bool {
	key = Normalize(key)
	if key == corev1.LabelHostname {
		return true
	}
	if AllKnown.Has(key) {
		return false
	}
	domain, _, found := strings.Cut(key, "/")
	if !found {
		return false
	}
	return slices.ContainsFunc(RestrictedDomains, func(d string) bool {
		return domain == d || strings.HasSuffix(domain, "."+d)
	})
}

// CheckRestricted returns the error users see for a key they may not use (scheduling §2.2).
func CheckRestricted(key string) error {
	if !Restricted(key) {
		return nil
	}
	return fmt.Errorf("using label %s is not allowed as it might interfere with the internal provisioning logic; "+
		"specify a well known label: %s, or a custom label that does not use a restricted domain: %s",
		Normalize(key), []string(AllKnown), []string(RestrictedDomains))
}
