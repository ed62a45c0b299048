package boot

import (
	"testing"

	corev1 "k8s.io/api/core/v1"

	"millwright/tools/ec2sim/catalogue"
	"millwright/tools/ec2sim/sim/instance"
)

// The vectors are the published allocatable amounts of EKS's types on AL2023 with default settings.
func TestAllocatableOfKnownTypes(t *testing.T) {
	cases := map[string]struct {
		cpu, memory string
		pods        int64
		devices     map[corev1.ResourceName]int64
	}{
		"t3.medium":      {"1930m", "3246Mi", 17, nil},
		"t4g.small":      {"1930m", "1359Mi", 11, nil},
		"m5.large":       {"1930m", "6903Mi", 29, nil},
		"m6g.large":      {"1930m", "6844Mi", 29, nil},
		"m7i-flex.large": {"1930m", "6903Mi", 29, nil},
		"c6i.xlarge":     {"3920m", "6584Mi", 58, nil},
		"i4i.large":      {"1930m", "14481Mi", 29, nil},
		"r6g.2xlarge":    {"7910m", "59568Mi", 58, nil},
		"g4dn.xlarge":    {"3920m", "14481Mi", 29, map[corev1.ResourceName]int64{nvidiaGPU: 1}},
		"inf2.xlarge":    {"3920m", "14162Mi", 58, map[corev1.ResourceName]int64{neuron: 1, neuronCore: 2}},
		"c7g.16xlarge":   {"63770m", "112720Mi", 737, nil},
		"m5.metal":       {"95690m", "355262Mi", 737, nil},
		"p4d.24xlarge":   {"95690m", "1082712Mi", 737, map[corev1.ResourceName]int64{nvidiaGPU: 8}},
		"trn1.32xlarge":  {"127610m", "481894Mi", 247, map[corev1.ResourceName]int64{neuron: 16, neuronCore: 32}},
		"m8i.96xlarge":   {"382970m", "1437890Mi", 1514, nil},
	}
	for name, want := range cases {
		t.Run(name, func(t *testing.T) {
			m, b := &instance.Machine{Type: catalogue.Lookup(name)}, &Bootstrap{Family: AL2023}
			free, err := allocatable(m, b, capacity(m, b, DefaultMemoryOverhead))
			if err != nil {
				t.Fatal(err)
			}
			for resource, text := range map[corev1.ResourceName]string{corev1.ResourceCPU: want.cpu, corev1.ResourceMemory: want.memory} {
				if q := free[resource]; q.String() != text {
					t.Errorf("%s %s, want %s", resource, q.String(), text)
				}
			}
			if q := free[corev1.ResourcePods]; q.Value() != want.pods {
				t.Errorf("pods %d, want %d", q.Value(), want.pods)
			}
			if q := free[corev1.ResourceEphemeralStorage]; q.Value() != 18253611008 {
				t.Errorf("ephemeral-storage %d, want 17Gi", q.Value())
			}
			found := devices(m)
			if len(found) != len(want.devices) {
				t.Errorf("devices %v, want %v", found, want.devices)
			}
			for device, n := range want.devices {
				if q := found[device]; q.Value() != n {
					t.Errorf("%s %d, want %d", device, q.Value(), n)
				}
			}
		})
	}
}

func TestKubeletSettingsShapeTheNode(t *testing.T) {
	m := &instance.Machine{Type: catalogue.Lookup("i4i.large"), DeviceGiB: map[string]int{"/dev/xvda": 100, "/dev/xvdb": 50}, EFAs: 1}
	cases := map[string]struct {
		bootstrap Bootstrap
		resource  corev1.ResourceName
		capacity  string
		free      string
	}{
		"maxPods is the number of pods":             {Bootstrap{Family: AL2023, Kubelet: Kubelet{MaxPods: 110}}, corev1.ResourcePods, "110", "110"},
		"podsPerCore bounds it":                     {Bootstrap{Family: AL2, Kubelet: Kubelet{MaxPods: 110, PodsPerCore: 5}}, corev1.ResourcePods, "10", "10"},
		"but not on Bottlerocket":                   {Bootstrap{Family: Bottlerocket, Kubelet: Kubelet{MaxPods: 110, PodsPerCore: 5}}, corev1.ResourcePods, "110", "110"},
		"kubeReserved replaces the default":         {Bootstrap{Family: AL2023, Kubelet: Kubelet{KubeReserved: map[string]string{"cpu": "1"}}}, corev1.ResourceCPU, "2", "1"},
		"systemReserved adds to it":                 {Bootstrap{Family: AL2023, Kubelet: Kubelet{SystemReserved: map[string]string{"cpu": "30m"}}}, corev1.ResourceCPU, "2", "1900m"},
		"an eviction threshold in per cent":         {Bootstrap{Family: AL2023, Kubelet: Kubelet{KubeReserved: map[string]string{"memory": "0"}, EvictionHard: map[string]string{"memory.available": "50%"}}}, corev1.ResourceMemory, "15155Mi", "7759360Ki"},
		"100 % means no threshold":                  {Bootstrap{Family: AL2023, Kubelet: Kubelet{KubeReserved: map[string]string{"memory": "0"}, EvictionHard: map[string]string{"memory.available": "100%"}}}, corev1.ResourceMemory, "15155Mi", "15155Mi"},
		"the root volume is the storage":            {Bootstrap{Family: AL2023}, corev1.ResourceEphemeralStorage, "100Gi", "89Gi"},
		"Bottlerocket's second volume":              {Bootstrap{Family: Bottlerocket}, corev1.ResourceEphemeralStorage, "50Gi", "44Gi"},
		"RAID0 makes the instance store of it":      {Bootstrap{Family: AL2023, RAID0: true}, corev1.ResourceEphemeralStorage, "457031250Ki", "410279549Ki"},
		"Bottlerocket reserves by its own max pods": {Bootstrap{Family: Bottlerocket, Kubelet: Kubelet{MaxPods: 10}}, corev1.ResourceMemory, "15155Mi", "14690Mi"},
	}
	for sentence, c := range cases {
		t.Run(sentence, func(t *testing.T) {
			total := capacity(m, &c.bootstrap, DefaultMemoryOverhead)
			free, err := allocatable(m, &c.bootstrap, total)
			if err != nil {
				t.Fatal(err)
			}
			got, left := total[c.resource], free[c.resource]
			if got.String() != c.capacity || left.String() != c.free {
				t.Errorf("capacity %s allocatable %s, want %s and %s", got.String(), left.String(), c.capacity, c.free)
			}
		})
	}
	if q := devices(m)[efa]; q.Value() != 1 {
		t.Errorf("efa %d, want as many as the launch template asks for", q.Value())
	}
	bad := &Bootstrap{Family: AL2023, Kubelet: Kubelet{KubeReserved: map[string]string{"cpu": "much"}}}
	if _, err := allocatable(m, bad, capacity(m, bad, DefaultMemoryOverhead)); err == nil {
		t.Error("a reservation that is no quantity was let pass")
	}
}
