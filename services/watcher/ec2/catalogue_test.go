package ec2

import (
	"fmt"
	"maps"
	"math"
	"slices"
	"sync"
	"testing"

	ec2types "github.com/aws/aws-sdk-go-v2/service/ec2/types"
	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"

	karpawsv1 "millwright/api/karpenteraws/v1"
	"millwright/events"
)

// region is what the simulated us-west-2 offers, asked for once: it is the same for all tests.
func region(t *testing.T) *offered {
	t.Helper()
	askRegion.Do(func() {
		r := newRig(t, nil)
		r.poll("instance_types")
		simulated = r.offered.Load()
	})
	if simulated == nil {
		t.Fatal("the simulated region did not answer")
	}
	return simulated
}

var (
	askRegion sync.Once
	simulated *offered
)

// computed is the catalogue of a NodeClass, cut down to some types; none: all.
func computed(t *testing.T, change func(*karpawsv1.EC2NodeClass), types ...string) *events.Catalog {
	t.Helper()
	o := *region(t)
	if len(types) > 0 {
		o.types = slices.DeleteFunc(slices.Clone(o.types), func(i ec2types.InstanceTypeInfo) bool { return !slices.Contains(types, string(i.InstanceType)) })
	}
	c, err := newCatalog(nodeClass("default", change), &o, nil, nil, nil, "us-west-2", Options{VMMemoryOverheadPercent: 0.075})
	if err != nil {
		t.Fatal(err)
	}
	return c
}

// allocatable is capacity less overhead, as kubectl shows it.
func allocatable(it events.CatalogInstanceType) map[string]int64 {
	out := map[string]int64{}
	for name, n := range it.Capacity {
		out[name] = n - it.Overhead[name]
	}
	return out
}

// The vectors of reference instance-types §10: AL2023 with default settings.
func TestAllocatableOfKnownTypes(t *testing.T) {
	c := computed(t, nil)
	for name, want := range map[string]map[string]int64{
		"t3.medium":      {"cpu": 1930, "memory": 3246, "pods": 17},
		"t4g.small":      {"cpu": 1930, "memory": 1359, "pods": 11},
		"m5.large":       {"cpu": 1930, "memory": 6903, "pods": 29, resourcePodENI: 9},
		"m6g.large":      {"cpu": 1930, "memory": 6844, "pods": 29, resourcePodENI: 9},
		"m7i-flex.large": {"cpu": 1930, "memory": 6903, "pods": 29, resourcePodENI: 3},
		"c6i.xlarge":     {"cpu": 3920, "memory": 6584, "pods": 58, resourcePodENI: 18},
		"i4i.large":      {"cpu": 1930, "memory": 14481, "pods": 29, resourcePodENI: 9},
		"r6g.2xlarge":    {"cpu": 7910, "memory": 59568, "pods": 58, resourcePodENI: 38},
		"g4dn.xlarge":    {"cpu": 3920, "memory": 14481, "pods": 29, resourceNvidiaGPU: 1, resourcePodENI: 39},
		"inf2.xlarge":    {"cpu": 3920, "memory": 14162, "pods": 58, resourceNeuron: 1, resourceNeuronCore: 2, resourcePodENI: 18},
		"c7g.16xlarge":   {"cpu": 63770, "memory": 112720, "pods": 737, resourceEFA: 1, resourcePodENI: 107},
		"m5.metal":       {"cpu": 95690, "memory": 355262, "pods": 737, resourcePodENI: 120},
		"p4d.24xlarge":   {"cpu": 95690, "memory": 1082712, "pods": 737, resourceNvidiaGPU: 8, resourceEFA: 4, resourcePodENI: 62},
		"trn1.32xlarge":  {"cpu": 127610, "memory": 481894, "pods": 247, resourceNeuron: 16, resourceNeuronCore: 32, resourceEFA: 8, resourcePodENI: 82},
		"m8i.96xlarge":   {"cpu": 382970, "memory": 1437890, "pods": 1514, resourceEFA: 1, resourcePodENI: 98},
	} {
		t.Run(name, func(t *testing.T) {
			i := slices.IndexFunc(c.InstanceTypes, func(it events.CatalogInstanceType) bool { return it.Name == name })
			if i < 0 {
				t.Fatal("the region does not have it")
			}
			want["memory"] *= mi
			want["ephemeral-storage"] = 18253611008
			if diff := cmp.Diff(want, allocatable(c.InstanceTypes[i])); diff != "" {
				t.Errorf("allocatable (-want +got):\n%s", diff)
			}
		})
	}
}

// The rules: ec2 §1.1.
func TestLabels(t *testing.T) {
	c := computed(t, nil)
	for name, want := range map[string]map[string][]string{
		"m5.large": {
			corev1.LabelInstanceTypeStable: {"m5.large"}, corev1.LabelArchStable: {"amd64"}, corev1.LabelOSStable: {"linux"},
			corev1.LabelWindowsBuild: nil, corev1.LabelTopologyRegion: {"us-west-2"},
			corev1.LabelTopologyZone: {"us-west-2a", "us-west-2b"}, karpawsv1.LabelTopologyZoneID: {"usw2-az1", "usw2-az2"},
			"karpenter.sh/capacity-type":        {"on-demand", "spot"},
			karpawsv1.LabelInstanceCategory:     {"m"},
			karpawsv1.LabelInstanceGeneration:   {"5"},
			karpawsv1.LabelInstanceFamily:       {"m5"},
			karpawsv1.LabelInstanceSize:         {"large"},
			karpawsv1.LabelInstanceCPU:          {"2"},
			karpawsv1.LabelInstanceMemory:       {"8192"},
			karpawsv1.LabelInstanceHypervisor:   {"nitro"},
			karpawsv1.LabelInstanceEBSBandwidth: {"4750"}, karpawsv1.LabelInstanceNetworkBandwidth: {"750"},
			karpawsv1.LabelInstanceCPUManufacturer: {"intel"}, karpawsv1.LabelInstanceCPUSustainedClockMHz: {"3100"},
			karpawsv1.LabelInstanceLocalNVME: nil, karpawsv1.LabelInstanceGPUName: nil, karpawsv1.LabelInstanceAcceleratorName: nil,
			karpawsv1.LabelInstanceEncryptionInTransit: {"false"}, karpawsv1.LabelInstanceCapabilityFlex: {"false"},
			karpawsv1.LabelInstanceTenancy: {"dedicated", "default"}, karpawsv1.LabelCapacityReservationID: nil,
		},
		"m5.metal":       {karpawsv1.LabelInstanceHypervisor: {""}, karpawsv1.LabelInstanceSize: {"metal"}},
		"m7i-flex.large": {karpawsv1.LabelInstanceFamily: {"m7i-flex"}, karpawsv1.LabelInstanceCapabilityFlex: {"true"}},
		"c6gd.xlarge":    {corev1.LabelArchStable: {"arm64"}, karpawsv1.LabelInstanceCPUManufacturer: {"aws"}, karpawsv1.LabelInstanceLocalNVME: {"237"}},
		"g4dn.xlarge": {
			karpawsv1.LabelInstanceGPUName: {"t4"}, karpawsv1.LabelInstanceGPUManufacturer: {"nvidia"},
			karpawsv1.LabelInstanceGPUCount: {"1"}, karpawsv1.LabelInstanceGPUMemory: {"16384"},
		},
		"inf2.24xlarge": {
			karpawsv1.LabelInstanceAcceleratorName: {"inferentia2"}, karpawsv1.LabelInstanceAcceleratorManufacturer: {"aws"},
			karpawsv1.LabelInstanceAcceleratorCount: {"6"},
		},
		"m6in.32xlarge": {karpawsv1.LabelInstanceNetworkBandwidth: {"200000"}},
		"im4gn.large":   {karpawsv1.LabelInstanceCategory: {"im"}, karpawsv1.LabelInstanceGeneration: {"4"}},
		"t2.micro":      {karpawsv1.LabelInstanceNetworkBandwidth: nil, karpawsv1.LabelInstanceEBSBandwidth: nil, corev1.LabelArchStable: {"amd64"}},
	} {
		t.Run(name, func(t *testing.T) {
			got := map[string][]string{}
			all := typeOf(t, c, name).Requirements
			for key := range want {
				values, ok := all[key]
				if !ok {
					t.Errorf("%s is not there; absent means an empty list", key)
				}
				got[key] = values
			}
			if diff := cmp.Diff(want, got, cmpopts.EquateEmpty()); diff != "" {
				t.Errorf("labels (-want +got):\n%s", diff)
			}
		})
	}
}

// The rules: ec2 §2.1.
func TestOfferings(t *testing.T) {
	c := computed(t, func(nc *karpawsv1.EC2NodeClass) {
		nc.Status.Subnets = append(nc.Status.Subnets, karpawsv1.Subnet{ID: "subnet-4", Zone: "us-west-2d", ZoneID: "usw2-az4"})
	})
	// m5n is offered in a, b and c only.
	want := []events.CatalogOffering{
		{Zone: "us-west-2a", ZoneID: "usw2-az2", CapacityType: "on-demand", Available: true},
		{Zone: "us-west-2a", ZoneID: "usw2-az2", CapacityType: "spot", Available: true},
		{Zone: "us-west-2b", ZoneID: "usw2-az1", CapacityType: "on-demand", Available: true},
		{Zone: "us-west-2b", ZoneID: "usw2-az1", CapacityType: "spot", Available: true},
		{Zone: "us-west-2d", ZoneID: "usw2-az4", CapacityType: "on-demand"},
		{Zone: "us-west-2d", ZoneID: "usw2-az4", CapacityType: "spot"},
	}
	m5n := typeOf(t, c, "m5n.large")
	if diff := cmp.Diff(want, m5n.Offerings); diff != "" {
		t.Errorf("m5n.large (-want +got):\n%s", diff)
	}
	if zones := m5n.Requirements[corev1.LabelTopologyZone]; !slices.Equal(zones, []string{"us-west-2a", "us-west-2b"}) {
		t.Errorf("zones %v", zones)
	}
	for _, o := range typeOf(t, c, "a1.large").Offerings {
		if o.Available {
			t.Error("a1 does not run AL2023")
		}
	}
}

func ptr[T any](v T) *T { return &v }

func quantity(s string) *resource.Quantity { return ptr(resource.MustParse(s)) }

func device(name, size string, root bool) *karpawsv1.BlockDeviceMapping {
	d := &karpawsv1.BlockDeviceMapping{DeviceName: &name, RootVolume: root, EBS: &karpawsv1.BlockDevice{}}
	if size != "" {
		d.EBS.VolumeSize = quantity(size)
	}
	return d
}

// On m5.large: 2 vCPU, 8 GiB, 29 pods by interfaces. Amounts that a case does not name are not compared.
// The rules: ec2 §1.2 and §1.3.
func TestNodeClassChangesWhatPodsGet(t *testing.T) {
	kubelet := func(k karpawsv1.KubeletConfiguration) func(*karpawsv1.EC2NodeClass) {
		return func(nc *karpawsv1.EC2NodeClass) { nc.Spec.Kubelet = &k }
	}
	family := func(name string, devices ...*karpawsv1.BlockDeviceMapping) func(*karpawsv1.EC2NodeClass) {
		return func(nc *karpawsv1.EC2NodeClass) { nc.Spec.AMIFamily, nc.Spec.BlockDeviceMappings = &name, devices }
	}
	const memory, storage = 7577 * mi, 20 * gi // capacity by default
	for sentence, c := range map[string]struct {
		change             func(*karpawsv1.EC2NodeClass)
		capacity, overhead map[string]int64
	}{
		"by default": {nil,
			map[string]int64{"cpu": 2000, "memory": memory, "pods": 29, "ephemeral-storage": storage},
			map[string]int64{"cpu": 70, "memory": (574 + 100) * mi, "ephemeral-storage": 3 * gi}},
		"maxPods limits pods, but memory is reserved for those the interfaces allow": {
			kubelet(karpawsv1.KubeletConfiguration{MaxPods: ptr(int32(10))}), map[string]int64{"pods": 10}, map[string]int64{"memory": 674 * mi}},
		"podsPerCore is a second limit": {
			kubelet(karpawsv1.KubeletConfiguration{PodsPerCore: ptr(int32(4))}), map[string]int64{"pods": 8}, map[string]int64{"memory": 674 * mi}},
		"kubeReserved replaces key by key": {
			kubelet(karpawsv1.KubeletConfiguration{KubeReserved: map[string]string{"cpu": "150m", "pid": "100"}}), nil,
			map[string]int64{"cpu": 150, "memory": 674 * mi}},
		"systemReserved is added": {
			kubelet(karpawsv1.KubeletConfiguration{SystemReserved: map[string]string{"memory": "1Gi", "cpu": "1"}}), nil,
			map[string]int64{"cpu": 1070, "memory": (674 + 1024) * mi}},
		"evictionHard as a quantity": {
			kubelet(karpawsv1.KubeletConfiguration{EvictionHard: map[string]string{"memory.available": "200Mi", "nodefs.available": "5Gi"}}), nil,
			map[string]int64{"memory": (574 + 200) * mi, "ephemeral-storage": 6 * gi}},
		"evictionHard as a percentage, rounded up": {
			kubelet(karpawsv1.KubeletConfiguration{EvictionHard: map[string]string{"memory.available": "7.5%"}}), nil,
			map[string]int64{"memory": 574*mi + (memory*75+999)/1000}},
		"an eviction threshold of 100% is none": {
			kubelet(karpawsv1.KubeletConfiguration{EvictionHard: map[string]string{"nodefs.available": "100%"}}), nil,
			map[string]int64{"ephemeral-storage": gi}},
		"more is reserved than can be counted": {
			kubelet(karpawsv1.KubeletConfiguration{SystemReserved: map[string]string{"memory": "6E"}, KubeReserved: map[string]string{"memory": "6E"}}), nil,
			map[string]int64{"memory": math.MaxInt64}},
		"the ephemeral device of the family": {
			family("AL2023", device("/dev/xvdb", "500Gi", false), device("/dev/xvda", "50Gi", false)), map[string]int64{"ephemeral-storage": 50 * gi}, nil},
		"a device marked as root volume comes first": {
			family("AL2023", device("/dev/xvda", "50Gi", false), device("/dev/sdb", "70Gi", true)), map[string]int64{"ephemeral-storage": 70 * gi}, nil},
		"a device without a size has that of the family": {
			family("AL2023", device("/dev/xvda", "", false)), map[string]int64{"ephemeral-storage": 20 * gi}, nil},
		"Custom counts its last device": {
			family("Custom", device("/dev/a", "30Gi", false), device("/dev/b", "40Gi", false)), map[string]int64{"ephemeral-storage": 40 * gi}, nil},
		"Bottlerocket counts its data volume": {
			family("Bottlerocket", device("/dev/xvda", "4Gi", false), device("/dev/xvdb", "90Gi", false)), map[string]int64{"ephemeral-storage": 90 * gi}, nil},
		"Bottlerocket reserves for the pods there can be": {
			func(nc *karpawsv1.EC2NodeClass) {
				nc.Spec.AMIFamily, nc.Spec.Kubelet = ptr("Bottlerocket"), &karpawsv1.KubeletConfiguration{MaxPods: ptr(int32(10)), PodsPerCore: ptr(int32(1))}
			}, map[string]int64{"pods": 10}, map[string]int64{"memory": (11*10 + 255 + 100) * mi}},
		"Windows is not limited by interfaces": {
			family("Windows2022"), map[string]int64{"pods": 110, "ephemeral-storage": 50 * gi, resourcePrivateIPv4: 9}, map[string]int64{"memory": (11*110 + 255 + 100) * mi}},
	} {
		t.Run(sentence, func(t *testing.T) {
			it := typeOf(t, computed(t, c.change, "m5.large"), "m5.large")
			for name, want := range c.capacity {
				if it.Capacity[name] != want {
					t.Errorf("capacity of %s: %d, want %d", name, it.Capacity[name], want)
				}
			}
			for name, want := range c.overhead {
				if it.Overhead[name] != want {
					t.Errorf("overhead of %s: %d, want %d", name, it.Overhead[name], want)
				}
			}
		})
	}
}

func TestInstanceStoreAsRAID0(t *testing.T) {
	c := computed(t, func(nc *karpawsv1.EC2NodeClass) {
		nc.Spec.InstanceStorePolicy = ptr(karpawsv1.InstanceStorePolicyRAID0)
	})
	for name, want := range map[string]int64{"m5d.large": 75_000_000_000, "m5.large": 20 * gi} {
		if got := typeOf(t, c, name).Capacity["ephemeral-storage"]; got != want {
			t.Errorf("%s: %d bytes, want %d", name, got, want)
		}
	}
}

func TestOptionsChangeWhatPodsGet(t *testing.T) {
	r := newRig(t, func(c *Config) { c.Options = Options{VMMemoryOverheadPercent: 0.1, ReservedENIs: 1} })
	r.classes = []*karpawsv1.EC2NodeClass{nodeClass("default", nil)}
	r.poll("instance_types", "nodeclasses")
	it := typeOf(t, r.catalog(), "m5.large")
	// 8192 − ceil(819.2) MiB; (3−1)·9+2 pods; memory stays reserved for 29.
	if it.Capacity["memory"] != 7372*mi || it.Capacity["pods"] != 20 || it.Overhead["memory"] != 674*mi {
		t.Errorf("capacity %v, overhead %v", it.Capacity, it.Overhead)
	}
	for _, bad := range []float64{-0.1, 1, 2} {
		if _, err := New(Config{EC2: r.cfg.EC2, Pricing: r.cfg.Pricing, Region: "r", Cluster: "c", Classes: r.cfg.Classes, Options: Options{VMMemoryOverheadPercent: bad}}, r.out); err == nil {
			t.Errorf("took a memory overhead of %v", bad)
		}
	}
}

func TestWindowsLabels(t *testing.T) {
	c := computed(t, func(nc *karpawsv1.EC2NodeClass) {
		nc.Spec.AMISelectorTerms = []karpawsv1.AMISelectorTerm{{Alias: "windows2022@latest"}}
	})
	l := typeOf(t, c, "m5.large").Requirements
	if !slices.Equal(l[corev1.LabelOSStable], []string{"windows"}) || !slices.Equal(l[corev1.LabelWindowsBuild], []string{"10.0.20348"}) {
		t.Errorf("labels %v", l)
	}
	if l := typeOf(t, c, "m6g.large").Requirements; len(l[corev1.LabelOSStable]) != 0 {
		t.Errorf("arm64 runs %v", l[corev1.LabelOSStable])
	}
}

// The rules: ec2 §1.3.
func TestKubeReservedCPU(t *testing.T) {
	for cores, want := range map[int64]int64{1: 60, 2: 70, 4: 80, 8: 90, 96: 310, 3: 75, 5: 82} {
		if got := kubeMilliCPU(cores); got != want {
			t.Errorf("%d cores: %dm, want %dm", cores, got, want)
		}
	}
}

// TestNodeClassesThatComeAndGoLeaveNothing, also those that no catalogue can be computed for.
func TestNodeClassesThatComeAndGoLeaveNothing(t *testing.T) {
	r := newRig(t, nil)
	r.poll("instance_types")
	for i := range 5 {
		r.setClasses(nodeClass(fmt.Sprint("good-", i), nil), nodeClass(fmt.Sprint("bad-", i), func(nc *karpawsv1.EC2NodeClass) {
			nc.Spec.Kubelet = &karpawsv1.KubeletConfiguration{KubeReserved: map[string]string{"cpu": "lots"}}
		}))
		r.poll("nodeclasses")
		if len(r.catalogs.emitted) != 1 || len(r.catalogs.faulty) != 1 {
			t.Fatalf("%d catalogues, %d faulty classes", len(r.catalogs.emitted), len(r.catalogs.faulty))
		}
	}
	r.setClasses()
	r.poll("nodeclasses")
	if len(r.catalogs.emitted) != 0 || len(r.catalogs.faulty) != 0 {
		t.Errorf("%d catalogues, %d faulty classes are left", len(r.catalogs.emitted), len(r.catalogs.faulty))
	}
}

// The rules: ec2 §1.4.
func TestTypesThatCannotDoWhatTheClassAsksAreLeftOut(t *testing.T) {
	nics := func(list ...karpawsv1.NetworkInterface) func(*karpawsv1.EC2NodeClass) {
		return func(nc *karpawsv1.EC2NodeClass) {
			nc.Spec.NetworkInterfaces = append([]karpawsv1.NetworkInterface{{InterfaceType: "interface"}}, list...)
		}
	}
	efa := func(card, device int32) karpawsv1.NetworkInterface {
		return karpawsv1.NetworkInterface{NetworkCardIndex: card, DeviceIndex: device, InterfaceType: "efa-only"}
	}
	const p4d, m5, m4, metal, m8i, t2 = "p4d.24xlarge", "m5.large", "m4.large", "m5.metal", "m8i.large", "t2.micro"
	for sentence, c := range map[string]struct {
		change func(*karpawsv1.EC2NodeClass)
		// why by type; "" is available.
		why map[string]string
	}{
		"nothing asked": {nil, map[string]string{p4d: "", m5: "", m4: "", metal: "", m8i: "", t2: ""}},
		"a second card": {nics(efa(1, 0)), map[string]string{p4d: "", m5: "networkInterfaces: it has no network card 1"}},
		"more interfaces than a card has": {nics(karpawsv1.NetworkInterface{DeviceIndex: 3, InterfaceType: "interface"}),
			map[string]string{p4d: "", m5: "networkInterfaces: its network card 0 has no interface 3"}},
		"EFA":                {nics(efa(0, 1)), map[string]string{p4d: "", m5: "networkInterfaces: it has 0 of 1 EFA interfaces"}},
		"an elastic adapter": {nics(), map[string]string{m5: "", t2: "networkInterfaces: it has no elastic network adapter"}},
		"prefixes": {func(nc *karpawsv1.EC2NodeClass) { nc.Spec.IPPrefixCount = ptr(int32(9)) },
			map[string]string{m5: "", metal: "", m4: "ipPrefixCount: its hypervisor is not nitro"}},
		"more prefixes than an interface holds": {func(nc *karpawsv1.EC2NodeClass) { nc.Spec.IPPrefixCount = ptr(int32(10)) },
			map[string]string{m5: "ipPrefixCount: its interfaces hold 9 prefixes", metal: ""}},
		"timeouts": {func(nc *karpawsv1.EC2NodeClass) {
			nc.Spec.ConnectionTracking = &karpawsv1.ConnectionTracking{UDPTimeout: ptr(int32(30))}
		},
			map[string]string{m5: "", m4: "connectionTracking: its hypervisor is not nitro", metal: "connectionTracking: its hypervisor is not nitro"}},
		"nested virtualization": {func(nc *karpawsv1.EC2NodeClass) {
			nc.Spec.CPUOptions = &karpawsv1.CPUOptions{NestedVirtualization: ptr("enabled")}
		},
			map[string]string{m8i: "", m5: "cpuOptions: it has no nested virtualization"}},
		"no nested virtualization": {func(nc *karpawsv1.EC2NodeClass) {
			nc.Spec.CPUOptions = &karpawsv1.CPUOptions{NestedVirtualization: ptr("disabled")}
		}, map[string]string{m8i: "", m5: ""}},
	} {
		t.Run(sentence, func(t *testing.T) {
			o := *region(t)
			o.types = slices.DeleteFunc(slices.Clone(o.types), func(i ec2types.InstanceTypeInfo) bool { _, asked := c.why[string(i.InstanceType)]; return !asked })
			catalog := computed(t, c.change, slices.Collect(maps.Keys(c.why))...)
			offer, err := offerOf(nodeClass("default", c.change), &o, nil, nil, "us-west-2", Options{VMMemoryOverheadPercent: 0.075})
			if err != nil {
				t.Fatal(err)
			}
			for name, why := range c.why {
				i := slices.IndexFunc(offer.Types, func(t OfferedType) bool { return t.Name == name })
				if offer.Types[i].Unusable != why {
					t.Errorf("%s: %q, want %q", name, offer.Types[i].Unusable, why)
				}
				available := slices.ContainsFunc(typeOf(t, catalog, name).Offerings, func(o events.CatalogOffering) bool { return o.Available })
				if available != (why == "") {
					t.Errorf("%s: available is %v", name, available)
				}
			}
		})
	}
}

// TestInterfacesOfTheClassChangeWhatPodsGet: the EFA interfaces are those that it names, and one on the first
// card takes the place of one that has addresses (ec2 §1.2). p4d has 15 interfaces of 50 addresses there.
func TestInterfacesOfTheClassChangeWhatPodsGet(t *testing.T) {
	for efas, pods := range map[int64]int64{1: 14*49 + 2, 2: 14*49 + 2} {
		c := computed(t, func(nc *karpawsv1.EC2NodeClass) {
			nc.Spec.NetworkInterfaces = []karpawsv1.NetworkInterface{{InterfaceType: "interface"}, {DeviceIndex: 1, InterfaceType: "efa-only"},
				{NetworkCardIndex: 1, InterfaceType: "efa-only"}}[:1+efas]
		}, "p4d.24xlarge")
		it := typeOf(t, c, "p4d.24xlarge")
		if it.Capacity[resourceEFA] != efas || it.Capacity["pods"] != pods {
			t.Errorf("capacity %v, want %d efa and %d pods", it.Capacity, efas, pods)
		}
	}
}
