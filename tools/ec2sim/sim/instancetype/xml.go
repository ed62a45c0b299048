package instancetype

import (
	"strconv"

	"millwright/tools/ec2sim/catalogue"
)

// xmlType is InstanceTypeInfo on the wire.
type xmlType struct {
	Name          string        `xml:"instanceType"`
	Current       bool          `xml:"currentGeneration"`
	FreeTier      bool          `xml:"freeTierEligible"`
	Usage         []string      `xml:"supportedUsageClasses>item"`
	RootTypes     []string      `xml:"supportedRootDeviceTypes>item"`
	Virtual       []string      `xml:"supportedVirtualizationTypes>item"`
	BareMetal     bool          `xml:"bareMetal"`
	Hypervisor    string        `xml:"hypervisor,omitempty"`
	Processor     xmlProcessor  `xml:"processorInfo"`
	VCPU          xmlVCPU       `xml:"vCpuInfo"`
	MemoryMiB     int64         `xml:"memoryInfo>sizeInMiB"`
	StorageHas    bool          `xml:"instanceStorageSupported"`
	Storage       *xmlStorage   `xml:"instanceStorageInfo,omitempty"`
	EBS           xmlEBS        `xml:"ebsInfo"`
	Network       xmlNetwork    `xml:"networkInfo"`
	GPU           *xmlGPUs      `xml:"gpuInfo,omitempty"`
	Inference     *xmlInference `xml:"inferenceAcceleratorInfo,omitempty"`
	Neuron        *xmlNeuron    `xml:"neuronInfo,omitempty"`
	Placement     []string      `xml:"placementGroupInfo>supportedStrategies>item"`
	Hibernation   bool          `xml:"hibernationSupported"`
	Burstable     bool          `xml:"burstablePerformanceSupported"`
	Dedicated     bool          `xml:"dedicatedHostsSupported"`
	AutoRecovery  bool          `xml:"autoRecoverySupported"`
	BootModes     []string      `xml:"supportedBootModes>item"`
	NitroEnclaves string        `xml:"nitroEnclavesSupport"`
}

type xmlProcessor struct {
	Architectures []string `xml:"supportedArchitectures>item"`
	ClockGHz      float64  `xml:"sustainedClockSpeedInGhz"`
	Features      []string `xml:"supportedFeatures>item"`
	Manufacturer  string   `xml:"manufacturer"`
}

type xmlVCPU struct {
	VCPUs   int `xml:"defaultVCpus"`
	Cores   int `xml:"defaultCores"`
	Threads int `xml:"defaultThreadsPerCore"`
}

type xmlStorage struct {
	TotalGB int64     `xml:"totalSizeInGB"`
	Disks   []xmlDisk `xml:"disks>item"`
	NVMe    string    `xml:"nvmeSupport"`
	Encrypt string    `xml:"encryptionSupport"`
}

type xmlDisk struct {
	SizeGB int64  `xml:"sizeInGB"`
	Count  int    `xml:"count"`
	Type   string `xml:"type"`
}

type xmlEBS struct {
	Optimized  string           `xml:"ebsOptimizedSupport"`
	Encryption string           `xml:"encryptionSupport"`
	Bandwidth  *xmlEBSBandwidth `xml:"ebsOptimizedInfo,omitempty"`
	NVMe       string           `xml:"nvmeSupport"`
}

type xmlEBSBandwidth struct {
	Baseline int64 `xml:"baselineBandwidthInMbps"`
	Maximum  int64 `xml:"maximumBandwidthInMbps"`
}

type xmlNetwork struct {
	Performance string    `xml:"networkPerformance"`
	ENIs        int       `xml:"maximumNetworkInterfaces"`
	MaxCards    int       `xml:"maximumNetworkCards"`
	DefaultCard int       `xml:"defaultNetworkCardIndex"`
	Cards       []xmlCard `xml:"networkCards>item"`
	IPv4        int       `xml:"ipv4AddressesPerInterface"`
	IPv6        int       `xml:"ipv6AddressesPerInterface"`
	IPv6Has     bool      `xml:"ipv6Supported"`
	ENA         string    `xml:"enaSupport"`
	EFAHas      bool      `xml:"efaSupported"`
	EFA         *xmlEFA   `xml:"efaInfo,omitempty"`
	Transit     bool      `xml:"encryptionInTransitSupported"`
}

type xmlEFA struct {
	Most int `xml:"maximumEfaInterfaces"`
}

type xmlCard struct {
	Index       int      `xml:"networkCardIndex"`
	Performance string   `xml:"networkPerformance"`
	ENIs        int      `xml:"maximumNetworkInterfaces"`
	Baseline    *float64 `xml:"baselineBandwidthInGbps,omitempty"`
	Peak        *float64 `xml:"peakBandwidthInGbps,omitempty"`
}

type xmlGPUs struct {
	GPUs  []xmlGPU `xml:"gpus>item"`
	Total int64    `xml:"totalGpuMemoryInMiB"`
}

type xmlGPU struct {
	Name         string `xml:"name"`
	Manufacturer string `xml:"manufacturer"`
	Count        int    `xml:"count"`
	Logical      int    `xml:"logicalGpuCount,omitempty"`
	MemoryMiB    int64  `xml:"memoryInfo>sizeInMiB"`
}

type xmlInference struct {
	Accelerators []xmlAccelerator `xml:"accelerators>member"`
}

type xmlAccelerator struct {
	Name         string `xml:"name"`
	Manufacturer string `xml:"manufacturer"`
	Count        int    `xml:"count"`
	MemoryMiB    int64  `xml:"memoryInfo>sizeInMiB"`
}

type xmlNeuron struct {
	Devices []xmlNeuronDevice `xml:"neuronDevices>item"`
	Total   int64             `xml:"totalNeuronDeviceMemoryInMiB"`
}

type xmlNeuronDevice struct {
	Name      string `xml:"name"`
	Count     int    `xml:"count"`
	Cores     int    `xml:"coreInfo>count"`
	MemoryMiB int64  `xml:"memoryInfo>sizeInMiB"`
}

func newXMLType(t *catalogue.Type) xmlType {
	x := xmlType{
		Name: t.Name, Current: t.CurrentGeneration(), FreeTier: t.Name == "t3.micro" || t.Name == "t2.micro",
		Usage: t.UsageClasses, RootTypes: []string{"ebs"}, Virtual: t.VirtualizationTypes, BareMetal: t.BareMetal,
		Hypervisor: t.Hypervisor, Processor: xmlProcessor{t.Architectures, t.ClockGHz, t.Features, t.Manufacturer},
		VCPU:      xmlVCPU{t.VCPUs, t.VCPUs / t.ThreadsPerCore, t.ThreadsPerCore},
		MemoryMiB: t.MemoryMiB, StorageHas: t.StorageGB > 0, EBS: newXMLEBS(t), Network: newXMLNetwork(t),
		Placement: t.PlacementStrategies, Burstable: t.Burstable, AutoRecovery: !t.BareMetal,
		BootModes:     []string{"legacy-bios", "uefi"},
		NitroEnclaves: map[bool]string{true: "supported", false: "unsupported"}[t.NitroEnclaves],
	}
	if t.StorageGB > 0 {
		x.Storage = &xmlStorage{t.StorageGB, []xmlDisk{{t.StorageGB, 1, t.StorageDisk}}, t.NVMeSupport, "required"}
	}
	accelerators(t, &x)
	return x
}

func newXMLEBS(t *catalogue.Type) xmlEBS {
	e := xmlEBS{Optimized: t.EBSOptimized, Encryption: "supported", NVMe: "required"}
	if t.Hypervisor == "xen" {
		e.NVMe = "unsupported"
	}
	if t.EBSMbps > 0 {
		e.Bandwidth = &xmlEBSBandwidth{t.EBSMbps, t.EBSMbps}
	}
	return e
}

// newXMLNetwork spreads the type's bandwidth over its cards, so that the sum is what the documentation says.
func newXMLNetwork(t *catalogue.Type) xmlNetwork {
	n := xmlNetwork{Performance: "Moderate", ENIs: t.ENIs, MaxCards: t.NetworkCards, IPv4: t.IPv4PerENI, IPv6: t.IPv4PerENI,
		IPv6Has: true, ENA: t.ENASupport, EFAHas: t.EFAs > 0, Transit: t.EncryptionInTransit}
	if t.EFAs > 0 {
		n.EFA = &xmlEFA{t.EFAs}
	}
	for i := range t.NetworkCards {
		card := xmlCard{Index: i, Performance: "Moderate", ENIs: t.ENIs}
		if t.NetworkMbps > 0 {
			gbps := float64(t.NetworkMbps) / 1000 / float64(t.NetworkCards)
			card.Baseline, card.Peak = ptr(gbps), ptr(max(gbps, 10))
			card.Performance = strconv.FormatFloat(gbps, 'f', -1, 64) + " Gigabit"
		}
		n.Cards = append(n.Cards, card)
		n.Performance = card.Performance
	}
	return n
}

func accelerators(t *catalogue.Type, x *xmlType) {
	if len(t.GPUs) > 0 {
		x.GPU = &xmlGPUs{}
		for _, g := range t.GPUs {
			x.GPU.GPUs = append(x.GPU.GPUs, xmlGPU{g.Name, g.Manufacturer, g.Count, g.Logical, g.MemoryMiB})
			x.GPU.Total += g.MemoryMiB * int64(max(g.Count, g.Logical))
		}
	}
	if len(t.Neurons) == 0 {
		return
	}
	x.Neuron = &xmlNeuron{}
	for _, d := range t.Neurons {
		x.Neuron.Devices = append(x.Neuron.Devices, xmlNeuronDevice{d.Name, d.Count, d.Cores, d.MemoryMiB})
		x.Neuron.Total += d.MemoryMiB * int64(d.Count)
		if t.Inference {
			x.Inference = &xmlInference{[]xmlAccelerator{{d.Name, "AWS", d.Count, d.MemoryMiB}}}
		}
	}
}

// ptr is a pointer to a value, for XML fields that are absent when unknown.
func ptr[T any](v T) *T { return &v }
