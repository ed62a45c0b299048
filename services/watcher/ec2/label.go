package ec2

import (
	"math"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"github.com/aws/aws-sdk-go-v2/aws"
	ec2types "github.com/aws/aws-sdk-go-v2/service/ec2/types"
	corev1 "k8s.io/api/core/v1"

	karpv1 "millwright/api/karpenter/v1"
	karpawsv1 "millwright/api/karpenteraws/v1"
)

// labels are the requirements of an instance type: key to sorted values, empty for DoesNotExist (ec2 §1.1).
type labels map[string][]string

func (l labels) one(key, value string) { l[key] = []string{value} }

// optional sets a value, or DoesNotExist without one.
func (l labels) optional(key, value string) {
	l[key] = nil
	if value != "" {
		l[key] = []string{value}
	}
}

func (l labels) number(key string, n int64) { l.one(key, strconv.FormatInt(n, 10)) }

func (l labels) several(key string, values []string) {
	slices.Sort(values)
	l[key] = slices.Compact(values)
}

// labelsOf are those that depend on the type, its family of images and the region alone.
func labelsOf(t *ec2types.InstanceTypeInfo, f family, region string) labels {
	l := labels{}
	name := string(t.InstanceType)
	arch := architecture(t)
	l.one(corev1.LabelInstanceTypeStable, name)
	l.optional(corev1.LabelArchStable, arch)
	l.one(corev1.LabelOSStable, f.os)
	if f.os == "windows" && arch != "amd64" {
		l[corev1.LabelOSStable] = nil
	}
	l.optional(corev1.LabelWindowsBuild, f.windowsBuild)
	l.one(corev1.LabelTopologyRegion, region)
	l.several(karpv1.CapacityTypeLabelKey, capacityTypes(t))
	l.several(karpawsv1.LabelInstanceTenancy, []string{"default", "dedicated"})
	l.optional(karpawsv1.LabelCapacityReservationID, "")
	l.optional(karpawsv1.LabelCapacityReservationType, "")
	l.optional(karpawsv1.LabelCapacityReservationInterruptible, "")
	nameLabels(l, name)
	processorLabels(l, t)
	deviceLabels(l, t)
	acceleratorLabels(l, t)
	return l
}

// architectures as Kubernetes names them; others are skipped.
var architectures = map[ec2types.ArchitectureType]string{ec2types.ArchitectureTypeX8664: "amd64", ec2types.ArchitectureTypeArm64: "arm64"}

func architecture(t *ec2types.InstanceTypeInfo) string {
	if t.ProcessorInfo == nil {
		return ""
	}
	for _, a := range t.ProcessorInfo.SupportedArchitectures {
		if arch, ok := architectures[a]; ok {
			return arch
		}
	}
	return ""
}

func capacityTypes(t *ec2types.InstanceTypeInfo) []string {
	var out []string
	for _, u := range t.SupportedUsageClasses {
		if u == ec2types.UsageClassTypeOnDemand || u == ec2types.UsageClassTypeSpot {
			out = append(out, string(u))
		}
	}
	return out
}

var typeName = regexp.MustCompile(`(^[a-z]+)(\-[0-9]+tb)?([0-9]+).*\.`)

func nameLabels(l labels, name string) {
	family, size, _ := strings.Cut(name, ".")
	l.optional(karpawsv1.LabelInstanceFamily, family)
	l.optional(karpawsv1.LabelInstanceSize, size)
	l.one(karpawsv1.LabelInstanceCapabilityFlex, strconv.FormatBool(strings.Contains(family, "-flex")))
	category, generation := "", ""
	if m := typeName.FindStringSubmatch(name); m != nil {
		category, generation = m[1], m[3]
	}
	l.optional(karpawsv1.LabelInstanceCategory, category)
	l.optional(karpawsv1.LabelInstanceGeneration, generation)
}

func processorLabels(l labels, t *ec2types.InstanceTypeInfo) {
	l.number(karpawsv1.LabelInstanceCPU, vcpus(t))
	l.number(karpawsv1.LabelInstanceMemory, memoryMiB(t))
	manufacturer, clock := "", ""
	if p := t.ProcessorInfo; p != nil {
		manufacturer = kebab(aws.ToString(p.Manufacturer))
		if ghz := p.SustainedClockSpeedInGhz; ghz != nil { // old types may have 0, which is a valid value
			clock = strconv.FormatInt(int64(math.Round(*ghz*1000)), 10)
		}
	}
	l.optional(karpawsv1.LabelInstanceCPUManufacturer, manufacturer)
	l.optional(karpawsv1.LabelInstanceCPUSustainedClockMHz, clock)
	l.one(karpawsv1.LabelInstanceHypervisor, string(t.Hypervisor)) // bare metal: the empty string is a valid value
}

func deviceLabels(l labels, t *ec2types.InstanceTypeInfo) {
	ebs, nvme := "", ""
	if e := t.EbsInfo; e != nil && e.EbsOptimizedInfo != nil && e.EbsOptimizedSupport == ec2types.EbsOptimizedSupportDefault {
		ebs = strconv.Itoa(int(aws.ToInt32(e.EbsOptimizedInfo.MaximumBandwidthInMbps)))
	}
	if s := t.InstanceStorageInfo; s != nil && s.NvmeSupport != ec2types.EphemeralNvmeSupportUnsupported {
		nvme = strconv.FormatInt(aws.ToInt64(s.TotalSizeInGB), 10)
	}
	l.optional(karpawsv1.LabelInstanceEBSBandwidth, ebs)
	l.optional(karpawsv1.LabelInstanceLocalNVME, nvme)
	network := ""
	if mbps := networkMbps(t); mbps > 0 {
		network = strconv.FormatInt(mbps, 10)
	}
	l.optional(karpawsv1.LabelInstanceNetworkBandwidth, network)
	encrypts := t.NetworkInfo != nil && aws.ToBool(t.NetworkInfo.EncryptionInTransitSupported)
	l.one(karpawsv1.LabelInstanceEncryptionInTransit, strconv.FormatBool(encrypts))
}

// networkMbps is the baseline over all network cards, as documented; 0 where it is only documented in words.
func networkMbps(t *ec2types.InstanceTypeInfo) int64 {
	if mbps, ok := documentedBandwidth()[string(t.InstanceType)]; ok {
		return mbps
	}
	return CardsMbps(t)
}

// CardsMbps is what EC2 says about the baseline of all network cards of a type; 0 where it says so only in
// words.
func CardsMbps(t *ec2types.InstanceTypeInfo) int64 {
	if t.NetworkInfo == nil {
		return 0
	}
	for _, word := range []string{"Low", "Moderate", "High"} {
		if strings.Contains(aws.ToString(t.NetworkInfo.NetworkPerformance), word) {
			return 0
		}
	}
	mbps := 0.0
	for _, card := range t.NetworkInfo.NetworkCards {
		mbps += aws.ToFloat64(card.BaselineBandwidthInGbps) * 1000
	}
	return int64(math.Round(mbps))
}

// acceleratorLabels describe GPUs only if there is one kind of them, and likewise other accelerators.
func acceleratorLabels(l labels, t *ec2types.InstanceTypeInfo) {
	for _, key := range []string{
		karpawsv1.LabelInstanceGPUName, karpawsv1.LabelInstanceGPUManufacturer, karpawsv1.LabelInstanceGPUCount,
		karpawsv1.LabelInstanceGPUMemory, karpawsv1.LabelInstanceAcceleratorName,
		karpawsv1.LabelInstanceAcceleratorManufacturer, karpawsv1.LabelInstanceAcceleratorCount,
	} {
		l[key] = nil
	}
	if t.GpuInfo != nil && len(t.GpuInfo.Gpus) == 1 {
		gpu := t.GpuInfo.Gpus[0]
		l.optional(karpawsv1.LabelInstanceGPUName, kebab(aws.ToString(gpu.Name)))
		l.optional(karpawsv1.LabelInstanceGPUManufacturer, kebab(aws.ToString(gpu.Manufacturer)))
		l.number(karpawsv1.LabelInstanceGPUCount, int64(aws.ToInt32(gpu.Count)))
		if gpu.MemoryInfo != nil {
			l.number(karpawsv1.LabelInstanceGPUMemory, int64(aws.ToInt32(gpu.MemoryInfo.SizeInMiB)))
		}
	}
	switch {
	case t.InferenceAcceleratorInfo != nil && len(t.InferenceAcceleratorInfo.Accelerators) == 1 && t.NeuronInfo == nil:
		a := t.InferenceAcceleratorInfo.Accelerators[0]
		l.optional(karpawsv1.LabelInstanceAcceleratorName, kebab(aws.ToString(a.Name)))
		l.optional(karpawsv1.LabelInstanceAcceleratorManufacturer, kebab(aws.ToString(a.Manufacturer)))
		l.number(karpawsv1.LabelInstanceAcceleratorCount, int64(aws.ToInt32(a.Count)))
	case t.NeuronInfo != nil && len(t.NeuronInfo.NeuronDevices) == 1:
		d := t.NeuronInfo.NeuronDevices[0]
		l.optional(karpawsv1.LabelInstanceAcceleratorName, kebab(aws.ToString(d.Name)))
		l.one(karpawsv1.LabelInstanceAcceleratorManufacturer, "aws")
		l.number(karpawsv1.LabelInstanceAcceleratorCount, int64(aws.ToInt32(d.Count)))
	}
}

func kebab(s string) string { return strings.ReplaceAll(strings.ToLower(s), " ", "-") }

func vcpus(t *ec2types.InstanceTypeInfo) int64 {
	if t.VCpuInfo == nil {
		return 0
	}
	return int64(aws.ToInt32(t.VCpuInfo.DefaultVCpus))
}

func memoryMiB(t *ec2types.InstanceTypeInfo) int64 {
	if t.MemoryInfo == nil {
		return 0
	}
	return aws.ToInt64(t.MemoryInfo.SizeInMiB)
}
