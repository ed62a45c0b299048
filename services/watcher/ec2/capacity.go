package ec2

import (
	"fmt"
	"math/big"
	"slices"
	"strconv"

	"github.com/aws/aws-sdk-go-v2/aws"
	ec2types "github.com/aws/aws-sdk-go-v2/service/ec2/types"
	corev1 "k8s.io/api/core/v1"

	karpawsv1 "millwright/api/karpenteraws/v1"
	"millwright/events"
)

const mi = int64(1) << 20

// Names of extended resources.
const (
	resourceNvidiaGPU   = "nvidia.com/gpu"
	resourceAMDGPU      = "amd.com/gpu"
	resourceGaudi       = "habana.ai/gaudi"
	resourceNeuron      = "aws.amazon.com/neuron"
	resourceNeuronCore  = "aws.amazon.com/neuroncore"
	resourceEFA         = "vpc.amazonaws.com/efa"
	resourcePodENI      = "vpc.amazonaws.com/pod-eni"
	resourcePrivateIPv4 = "vpc.amazonaws.com/PrivateIPv4Address"
)

// sizing computes capacity and overhead of types for one NodeClass.
type sizing struct {
	family       family
	kubelet      karpawsv1.KubeletConfiguration
	devices      []*karpawsv1.BlockDeviceMapping
	raid0        bool
	overhead     *big.Rat // of memory, lost to the hypervisor
	reservedENIs int64
	// interfaces, prefixes, nested virtualization and tracking of connections that every instance has.
	interfaces       []karpawsv1.NetworkInterface
	prefixes         int32
	nested, tracking bool
	// grouped: the class names a placement group. group is nil as long as it is not known.
	grouped bool
	group   *karpawsv1.PlacementGroup
	// shifts are the zones that nothing is launched in.
	shifts []events.ZonalShift
	// onOutposts are the zones that have nothing but Outposts, which have no spot instances.
	onOutposts map[string]bool
}

func newSizing(nc *karpawsv1.EC2NodeClass, o Options) (sizing, error) {
	s := sizing{
		family: familyOf(nc), devices: nc.Spec.BlockDeviceMappings, reservedENIs: int64(o.ReservedENIs),
		interfaces: nc.Spec.NetworkInterfaces, prefixes: aws.ToInt32(nc.Spec.IPPrefixCount), tracking: nc.Spec.ConnectionTracking != nil,
		nested:  nc.Spec.CPUOptions != nil && aws.ToString(nc.Spec.CPUOptions.NestedVirtualization) == karpawsv1.NestedVirtualizationEnabled,
		grouped: nc.Spec.PlacementGroupSelector != nil,
	}
	if s.grouped {
		s.group = nc.Status.PlacementGroup
	}
	if nc.Spec.Kubelet != nil {
		s.kubelet = *nc.Spec.Kubelet
	}
	s.raid0 = nc.Spec.InstanceStorePolicy != nil && *nc.Spec.InstanceStorePolicy == karpawsv1.InstanceStorePolicyRAID0
	// The shortest decimal representation of this float is what the user wrote.
	overhead, ok := new(big.Rat).SetString(strconv.FormatFloat(o.VMMemoryOverheadPercent, 'f', -1, 64))
	if !ok || overhead.Sign() < 0 || overhead.Cmp(big.NewRat(1, 1)) >= 0 {
		return s, fmt.Errorf("memory overhead %v is not a fraction", o.VMMemoryOverheadPercent)
	}
	s.overhead = overhead
	return s, nil
}

// capacity by resource name (ec2 §1.2), cpu in millicores, without zeros.
func (s *sizing) capacity(t *ec2types.InstanceTypeInfo) map[string]int64 {
	limits := knownInterfaces()[string(t.InstanceType)]
	out := map[string]int64{
		string(corev1.ResourceCPU):              vcpus(t) * 1000,
		string(corev1.ResourceMemory):           s.memory(t),
		string(corev1.ResourceEphemeralStorage): s.storage(t),
		string(corev1.ResourcePods):             s.pods(t),
		resourcePodENI:                          limits.branch,
	}
	out[resourceEFA] = efaMax(t)
	if len(s.interfaces) > 0 {
		out[resourceEFA] = int64(s.efaOnly())
	}
	if s.family.os == "windows" { // as its VPC resource controller counts them, from the same table
		out[resourcePrivateIPv4] = max(0, limits.addresses-1)
	}
	accelerators(t, out)
	for name, n := range out {
		if n == 0 && name != string(corev1.ResourcePods) {
			delete(out, name)
		}
	}
	return out
}

func accelerators(t *ec2types.InstanceTypeInfo, out map[string]int64) {
	if t.GpuInfo != nil {
		names := map[string]string{"NVIDIA": resourceNvidiaGPU, "AMD": resourceAMDGPU, "Habana": resourceGaudi}
		for _, gpu := range t.GpuInfo.Gpus {
			if name, ok := names[aws.ToString(gpu.Manufacturer)]; ok {
				out[name] += int64(aws.ToInt32(gpu.Count))
			}
		}
	}
	if t.NeuronInfo == nil {
		return
	}
	for i, d := range t.NeuronInfo.NeuronDevices {
		out[resourceNeuron] += int64(aws.ToInt32(d.Count))
		if i == 0 && d.CoreInfo != nil {
			out[resourceNeuronCore] = int64(aws.ToInt32(d.Count)) * int64(aws.ToInt32(d.CoreInfo.Count))
		}
	}
}

// memory that the guest sees, in bytes.
func (s *sizing) memory(t *ec2types.InstanceTypeInfo) int64 {
	m := memoryMiB(t)
	if p := t.ProcessorInfo; p != nil && len(p.SupportedArchitectures) > 0 && p.SupportedArchitectures[0] == ec2types.ArchitectureTypeArm64 {
		m -= 64 // reserved by the firmware
	}
	return (m - portion(m, s.overhead)) * mi
}

// portion is n·r, rounded up.
func portion(n int64, r *big.Rat) int64 {
	p := new(big.Rat).Mul(new(big.Rat).SetInt64(n), r)
	q, rest := new(big.Int).QuoRem(p.Num(), p.Denom(), new(big.Int))
	if rest.Sign() > 0 {
		q.Add(q, big.NewInt(1))
	}
	return q.Int64()
}

// storage is the size, in bytes, of the volume the kubelet counts as ephemeral.
func (s *sizing) storage(t *ec2types.InstanceTypeInfo) int64 {
	if i := t.InstanceStorageInfo; s.raid0 && i != nil && aws.ToInt64(i.TotalSizeInGB) > 0 {
		return aws.ToInt64(i.TotalSizeInGB) * 1_000_000_000
	}
	for _, d := range s.devices {
		if size := volumeBytes(d); d != nil && d.RootVolume && size > 0 {
			return size
		}
	}
	if s.family.name == karpawsv1.AMIFamilyCustom {
		if n := len(s.devices); n > 0 && volumeBytes(s.devices[n-1]) > 0 {
			return volumeBytes(s.devices[n-1])
		}
		return s.family.deviceBytes
	}
	i := slices.IndexFunc(s.devices, func(d *karpawsv1.BlockDeviceMapping) bool {
		return d != nil && d.DeviceName != nil && *d.DeviceName == s.family.device
	})
	if i >= 0 && volumeBytes(s.devices[i]) > 0 {
		return volumeBytes(s.devices[i])
	}
	return s.family.deviceBytes
}

func volumeBytes(d *karpawsv1.BlockDeviceMapping) int64 {
	if d == nil || d.EBS == nil || d.EBS.VolumeSize == nil {
		return 0
	}
	return d.EBS.VolumeSize.Value()
}

// windowsPods is the kubelet's default, which applies where addresses do not limit.
const windowsPods = 110

func (s *sizing) pods(t *ec2types.InstanceTypeInfo) int64 {
	pods := int64(windowsPods)
	switch {
	case s.kubelet.MaxPods != nil:
		pods = int64(*s.kubelet.MaxPods)
	case s.family.eniPods:
		pods = eniPods(t, s.reservedENIs+s.efaOnFirstCard())
	}
	if perCore := s.kubelet.PodsPerCore; perCore != nil && *perCore > 0 && s.family.podsPerCore {
		pods = min(pods, int64(*perCore)*vcpus(t))
	}
	return pods
}

// eniPods is how many pods get an address from the interfaces of the default network card, but those that are
// reserved or carry EFA alone.
func eniPods(t *ec2types.InstanceTypeInfo, reserved int64) int64 {
	n := t.NetworkInfo
	if n == nil {
		return 0
	}
	card := int(aws.ToInt32(n.DefaultNetworkCardIndex))
	enis := int64(aws.ToInt32(n.MaximumNetworkInterfaces))
	if card >= 0 && card < len(n.NetworkCards) {
		enis = int64(aws.ToInt32(n.NetworkCards[card].MaximumNetworkInterfaces))
	}
	if enis -= reserved; enis <= 0 {
		return 0
	}
	return enis*max(0, int64(aws.ToInt32(n.Ipv4AddressesPerInterface))-1) + 2
}
