package ec2

import (
	"strings"

	karpawsv1 "millwright/api/karpenteraws/v1"
)

const gi = int64(1) << 30

// family is what an AMI family means for labels, capacity and overhead (userdata §7).
type family struct {
	name         string
	os           string
	windowsBuild string
	// device holds the kubelet's files; "" if it cannot be known. deviceBytes is its default size.
	device      string
	deviceBytes int64
	// eniPods: pods get addresses of network interfaces, whose number limits them.
	eniPods bool
	// reserveByENI: memory is reserved for the pods that interfaces allow, even if maxPods is set.
	reserveByENI bool
	podsPerCore  bool
}

var families = map[string]family{
	karpawsv1.AMIFamilyAL2:          {os: "linux", device: "/dev/xvda", deviceBytes: 20 * gi, eniPods: true, reserveByENI: true, podsPerCore: true},
	karpawsv1.AMIFamilyAL2023:       {os: "linux", device: "/dev/xvda", deviceBytes: 20 * gi, eniPods: true, reserveByENI: true, podsPerCore: true},
	karpawsv1.AMIFamilyBottlerocket: {os: "linux", device: "/dev/xvdb", deviceBytes: 20 * gi, eniPods: true},
	karpawsv1.AMIFamilyCustom:       {os: "linux", deviceBytes: 20 * gi, eniPods: true, reserveByENI: true, podsPerCore: true},
	karpawsv1.AMIFamilyWindows2019:  windows("10.0.17763"),
	karpawsv1.AMIFamilyWindows2022:  windows("10.0.20348"),
	karpawsv1.AMIFamilyWindows2025:  windows("10.0.26100"),
}

func windows(build string) family {
	return family{os: "windows", windowsBuild: build, device: "/dev/sda1", deviceBytes: 50 * gi, podsPerCore: true}
}

var aliases = map[string]string{
	"al2": karpawsv1.AMIFamilyAL2, "al2023": karpawsv1.AMIFamilyAL2023, "bottlerocket": karpawsv1.AMIFamilyBottlerocket,
	"windows2019": karpawsv1.AMIFamilyWindows2019, "windows2022": karpawsv1.AMIFamilyWindows2022, "windows2025": karpawsv1.AMIFamilyWindows2025,
}

// familyOf: spec.amiFamily, otherwise that of the alias; an unknown one behaves as AL2.
func familyOf(nc *karpawsv1.EC2NodeClass) family {
	name := ""
	for _, term := range nc.Spec.AMISelectorTerms {
		if alias, _, ok := strings.Cut(term.Alias, "@"); ok && name == "" {
			name = aliases[strings.ToLower(alias)]
		}
	}
	if f := nc.Spec.AMIFamily; f != nil && *f != "" {
		name = *f
	}
	f, ok := families[name]
	if !ok {
		name = karpawsv1.AMIFamilyAL2
		f = families[name]
	}
	f.name = name
	return f
}
