package boot

import (
	"fmt"
	"strconv"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"

	"millwright/tools/ec2sim/catalogue"
	"millwright/tools/ec2sim/sim/instance"
)

const (
	mebi = int64(1) << 20
	gibi = int64(1) << 30
)

// DefaultMemoryOverhead is the share of a type's memory that the hypervisor keeps, in millionths.
const DefaultMemoryOverhead = 75_000

// Extended resources.
const (
	nvidiaGPU  = corev1.ResourceName("nvidia.com/gpu")
	amdGPU     = corev1.ResourceName("amd.com/gpu")
	gaudi      = corev1.ResourceName("habana.ai/gaudi")
	neuron     = corev1.ResourceName("aws.amazon.com/neuron")
	neuronCore = corev1.ResourceName("aws.amazon.com/neuroncore")
	efa        = corev1.ResourceName("vpc.amazonaws.com/efa")
	addresses  = corev1.ResourceName("vpc.amazonaws.com/PrivateIPv4Address")
)

// capacity is what the kubelet finds: the machine's cores, the memory the guest sees, pods and storage.
func capacity(m *instance.Machine, b *Bootstrap, overheadMillionths int64) corev1.ResourceList {
	return corev1.ResourceList{
		corev1.ResourceCPU:              *resource.NewQuantity(int64(m.Type.VCPUs), resource.DecimalSI),
		corev1.ResourceMemory:           *resource.NewQuantity(guestMemory(m.Type, overheadMillionths)*mebi, resource.BinarySI),
		corev1.ResourcePods:             *resource.NewQuantity(int64(podCapacity(m.Type, b)), resource.DecimalSI),
		corev1.ResourceEphemeralStorage: *resource.NewQuantity(ephemeralStorage(m, b), resource.BinarySI),
	}
}

// guestMemory in MiB: 64 MiB less on arm64, then the hypervisor's share, rounded up.
func guestMemory(t *catalogue.Type, overheadMillionths int64) int64 {
	m := t.MemoryMiB
	if t.Arch() == "arm64" {
		m -= 64
	}
	return m - (m*overheadMillionths+999_999)/1_000_000
}

func podCapacity(t *catalogue.Type, b *Bootstrap) int {
	pods := b.Kubelet.MaxPods
	switch {
	case pods != 0:
	case b.Family == Windows:
		pods = windowsPods
	default:
		pods = t.ENIPods()
	}
	if perCore := b.Kubelet.PodsPerCore; perCore > 0 && b.Family != Bottlerocket {
		pods = min(pods, perCore*t.VCPUs)
	}
	return pods
}

// windowsPods is the kubelet's own default.
const windowsPods = 110

// ephemeralStorage is the size of the device that holds /var: the instance store with RAID0, else a volume.
func ephemeralStorage(m *instance.Machine, b *Bootstrap) int64 {
	if b.Family == Windows {
		if size := m.DeviceGiB["/dev/sda1"]; size > 0 {
			return int64(size) * gibi
		}
		return 50 * gibi
	}
	if b.RAID0 && m.Type.StorageGB > 0 {
		return m.Type.StorageGB * 1_000_000_000
	}
	device := "/dev/xvda"
	if b.Family == Bottlerocket {
		device = "/dev/xvdb"
	}
	if size := m.DeviceGiB[device]; size > 0 {
		return int64(size) * gibi
	}
	return 20 * gibi
}

// devices are the extended resources that device plugins publish; on Windows the VPC resource controller.
func devices(m *instance.Machine) corev1.ResourceList {
	counts := map[corev1.ResourceName]int64{efa: int64(m.EFAs)}
	if windowsBuilds[m.ImageFamily] != "" {
		counts[addresses] = int64(m.Type.IPv4PerENI - 1)
	}
	for _, g := range m.Type.GPUs {
		name := map[string]corev1.ResourceName{"NVIDIA": nvidiaGPU, "AMD": amdGPU, "Habana": gaudi}[g.Manufacturer]
		counts[name] += int64(g.Count)
	}
	for _, d := range m.Type.Neurons {
		counts[neuron] += int64(d.Count)
		counts[neuronCore] += int64(d.Count * d.Cores)
	}
	out := corev1.ResourceList{}
	for name, n := range counts {
		if n > 0 {
			out[name] = *resource.NewQuantity(n, resource.DecimalSI)
		}
	}
	return out
}

// allocatable is capacity less kube-reserved, system-reserved and the hard eviction thresholds.
func allocatable(m *instance.Machine, b *Bootstrap, total corev1.ResourceList) (corev1.ResourceList, error) {
	out := total.DeepCopy()
	reserved, err := reservations(m, b)
	if err != nil {
		return nil, err
	}
	thresholds, err := evictionThresholds(b, total)
	if err != nil {
		return nil, err
	}
	for _, list := range []corev1.ResourceList{reserved, thresholds} {
		for name, q := range list {
			left, has := out[name]
			if !has {
				continue
			}
			left.Sub(q)
			if left.Sign() < 0 {
				left = *resource.NewQuantity(0, left.Format)
			}
			out[name] = left
		}
	}
	return out, nil
}

// reservations adds the configured reservations to the image's own kube-reserved.
func reservations(m *instance.Machine, b *Bootstrap) (corev1.ResourceList, error) {
	pods := m.Type.ENIPods()
	if b.Family == Bottlerocket || b.Family == Windows {
		pods = podCapacity(m.Type, b)
	}
	out := corev1.ResourceList{
		corev1.ResourceCPU:              *resource.NewMilliQuantity(reservedCPU(m.Type.VCPUs), resource.DecimalSI),
		corev1.ResourceMemory:           *resource.NewQuantity((11*int64(pods)+255)*mebi, resource.BinarySI),
		corev1.ResourceEphemeralStorage: *resource.NewQuantity(gibi, resource.BinarySI),
	}
	for key, text := range b.Kubelet.KubeReserved {
		q, err := resource.ParseQuantity(text)
		if err != nil {
			return nil, fmt.Errorf("kube-reserved %s=%s: %w", key, text, err)
		}
		out[corev1.ResourceName(key)] = q
	}
	for key, text := range b.Kubelet.SystemReserved {
		q, err := resource.ParseQuantity(text)
		if err != nil {
			return nil, fmt.Errorf("system-reserved %s=%s: %w", key, text, err)
		}
		sum := out[corev1.ResourceName(key)]
		sum.Add(q)
		out[corev1.ResourceName(key)] = sum
	}
	return out, nil
}

// reservedCPU in millicores: 6 % of the first core, 1 % of the second, 0.5 % of the next two, 0.25 % of the
// rest, each term in whole millicores.
func reservedCPU(vcpus int) int64 {
	cores := int64(vcpus)
	reserved := min(cores, 1) * 60
	reserved += min(max(cores-1, 0), 1) * 10
	reserved += min(max(cores-2, 0), 2) * 5
	return reserved + max(cores-4, 0)*5/2
}

// evictionThresholds: 100 MiB of memory and a tenth of the storage unless configured.
func evictionThresholds(b *Bootstrap, total corev1.ResourceList) (corev1.ResourceList, error) {
	out := corev1.ResourceList{}
	for name, signal := range map[corev1.ResourceName][2]string{
		corev1.ResourceMemory:           {"memory.available", "100Mi"},
		corev1.ResourceEphemeralStorage: {"nodefs.available", "10%"},
	} {
		text := signal[1]
		if configured, ok := b.Kubelet.EvictionHard[signal[0]]; ok {
			text = configured
		}
		whole := total[name]
		q, err := threshold(text, whole.Value())
		if err != nil {
			return nil, fmt.Errorf("eviction-hard %s: %w", signal[0], err)
		}
		out[name] = q
	}
	return out, nil
}

// threshold reads a quantity or a percentage of the capacity; 100 % means none.
func threshold(text string, whole int64) (resource.Quantity, error) {
	percent, ok := strings.CutSuffix(text, "%")
	if !ok {
		return resource.ParseQuantity(text)
	}
	p, err := strconv.ParseFloat(percent, 64)
	if err != nil {
		return resource.Quantity{}, err
	}
	if p >= 100 {
		p = 0
	}
	share := int64(p * 100)
	return *resource.NewQuantity((whole*share+9999)/10000, resource.BinarySI), nil
}
