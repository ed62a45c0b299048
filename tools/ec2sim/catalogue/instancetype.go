package catalogue

import (
	"regexp"
	"slices"
	"strconv"
	"strings"
)

// Type is one EC2 instance type with what DescribeInstanceTypes and the Pricing API report about it.
type Type struct {
	Name   string
	Family string
	Size   string

	VCPUs          int
	ThreadsPerCore int
	MemoryMiB      int64
	Manufacturer   string // Intel, AMD, AWS
	Architectures  []string
	ClockGHz       float64
	Features       []string

	BareMetal  bool
	Burstable  bool
	Hypervisor string // nitro, xen, or "" on bare metal

	UsageClasses        []string
	VirtualizationTypes []string
	PlacementStrategies []string
	NitroEnclaves       bool

	// ENIs and IPv4PerENI are those of the default network card, the only one that counts for pods.
	NetworkCards        int
	ENIs                int
	IPv4PerENI          int
	NetworkMbps         int64 // 0: documented only as low, moderate or high
	EFAs                int
	ENASupport          string
	EncryptionInTransit bool
	// BranchENIs is the trunking limit; EC2's API does not report it.
	BranchENIs int

	EBSMbps      int64
	EBSOptimized string // default or unsupported

	StorageGB   int64
	StorageDisk string // ssd or hdd
	NVMeSupport string // required or unsupported

	GPUs      []GPU
	Neurons   []Neuron
	Inference bool // also reported as InferenceAcceleratorInfo

	// PriceMicroUSD is the on-demand price per hour in us-east-1; 0 means it is not known.
	PriceMicroUSD int64
}

// GPU is one entry of GpuInfo. Logical counts fractions of a GPU; Count is then 0.
type GPU struct {
	Name         string
	Manufacturer string
	Count        int
	Logical      int
	MemoryMiB    int64
}

// Neuron is one entry of NeuronInfo.
type Neuron struct {
	Name      string
	Count     int
	Cores     int
	MemoryMiB int64
}

// Arch returns the architecture as Kubernetes names it.
func (t *Type) Arch() string {
	if slices.Contains(t.Architectures, "arm64") {
		return "arm64"
	}
	return "amd64"
}

// ENIPods is the number of pods that the default card's addresses allow.
func (t *Type) ENIPods() int { return t.ENIs*(t.IPv4PerENI-1) + 2 }

// Supports reports whether the type can be had as usage class (on-demand, spot, capacity-block).
func (t *Type) Supports(usageClass string) bool { return slices.Contains(t.UsageClasses, usageClass) }

// CurrentGeneration as EC2 marks it: previous generations are those before the fifth, and a1.
func (t *Type) CurrentGeneration() bool {
	switch t.Family {
	case "a1", "m4", "c4", "r4", "t2", "p3":
		return false
	}
	return true
}

var generation = regexp.MustCompile(`^([a-z]+)(-[0-9]+tb)?([0-9]+)`)

// Category returns the leading letters of the family, Generation the digits after them (or after "-12tb").
func (t *Type) Category() string { return generation.FindStringSubmatch(t.Family)[1] }

// Generation returns the family's generation number.
func (t *Type) Generation() int {
	n, _ := strconv.Atoi(generation.FindStringSubmatch(t.Family)[3])
	return n
}

// sizeName turns a table's short size into EC2's: 2xl -> 2xlarge.
func sizeName(short string) string {
	if strings.HasPrefix(short, "metal") || !strings.HasSuffix(short, "xl") {
		return short
	}
	return short + "arge"
}

// sizeVCPUs is the vCPU count a size stands for: medium 1, large 2, xl 4, Nxl and metal-Nxl 4·N.
func sizeVCPUs(short string) int {
	switch short {
	case "medium":
		return 1
	case "large":
		return 2
	case "xl":
		return 4
	}
	n, err := strconv.Atoi(strings.TrimSuffix(strings.TrimPrefix(short, "metal-"), "xl"))
	if err != nil {
		return 0
	}
	return 4 * n
}
