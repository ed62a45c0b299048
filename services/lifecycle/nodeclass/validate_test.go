package nodeclass

import (
	"testing"

	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	awsv1 "millwright/api/karpenteraws/v1"
)

func TestFieldsThatLaunchesLeaveOutAreRefusedByName(t *testing.T) {
	enabled, one := "enabled", int32(1)
	for field, set := range map[string]func(*awsv1.EC2NodeClassSpec){
		"spec.placementGroupSelector": func(s *awsv1.EC2NodeClassSpec) {
			s.PlacementGroupSelector = &awsv1.PlacementGroupSelector{Name: "g"}
		},
		"spec.ipPrefixCount": func(s *awsv1.EC2NodeClassSpec) { s.IPPrefixCount = &one },
		"spec.networkInterfaces": func(s *awsv1.EC2NodeClassSpec) {
			s.NetworkInterfaces = []awsv1.NetworkInterface{{InterfaceType: awsv1.InterfaceTypeInterface}}
		},
		"spec.connectionTracking": func(s *awsv1.EC2NodeClassSpec) {
			s.ConnectionTracking = &awsv1.ConnectionTracking{UDPTimeout: &one}
		},
		"spec.cpuOptions": func(s *awsv1.EC2NodeClassSpec) { s.CPUOptions = &awsv1.CPUOptions{NestedVirtualization: &enabled} },
	} {
		t.Run(field, func(t *testing.T) {
			nc := class()
			if faults := Validate(nc); len(faults) > 0 {
				t.Fatalf("the sound class has faults: %v", faults)
			}
			set(&nc.Spec)
			faults := Validate(nc)
			if len(faults) != 1 || faults[0].Field != field || faults[0].Reason != reasonInvalid {
				t.Errorf("faults = %v, want one of %s", faults, field)
			}
		})
	}
}

func TestAUnitWithoutANumberIsNoSize(t *testing.T) {
	nc, size := class(), resource.Quantity{}
	if err := size.UnmarshalJSON([]byte(`"Ti"`)); err != nil {
		t.Fatal(err)
	}
	nc.Spec.BlockDeviceMappings = []*awsv1.BlockDeviceMapping{{EBS: &awsv1.BlockDevice{VolumeSize: &size}}}
	faults := Validate(nc)
	if len(faults) != 1 || faults[0].Field != "spec.blockDeviceMappings[0].ebs.volumeSize" {
		t.Errorf("faults = %v", faults)
	}
}

func TestFieldsThatAskForNothingAreFine(t *testing.T) {
	nc := class()
	nc.Spec.IPPrefixCount, nc.Spec.CPUOptions, nc.Spec.NetworkInterfaces = new(int32), &awsv1.CPUOptions{}, []awsv1.NetworkInterface{}
	if faults := Validate(nc); len(faults) > 0 {
		t.Errorf("faults = %v", faults)
	}
}

func TestAmountsThatNobodyCanReadAreRefusedByName(t *testing.T) {
	minute := map[string]metav1.Duration{"memory.available": {}}
	for field, k := range map[string]*awsv1.KubeletConfiguration{
		"spec.kubelet.evictionHard[memory.available]": {EvictionHard: map[string]string{"memory.available": ""}},
		"spec.kubelet.evictionSoft[memory.available]": {EvictionSoft: map[string]string{"memory.available": "1e5.5"}, EvictionSoftGracePeriod: minute},
		"spec.kubelet.systemReserved[cpu]":            {SystemReserved: map[string]string{"cpu": "1e5.5"}},
		"spec.kubelet.kubeReserved[memory]":           {KubeReserved: map[string]string{"memory": "1e5.5", "cpu": "100m"}},
	} {
		nc := class()
		nc.Spec.Kubelet = k
		if faults := Validate(nc); len(faults) != 1 || faults[0].Field != field {
			t.Errorf("faults = %v, want one of %s", faults, field)
		}
	}
	nc := class()
	nc.Spec.Kubelet = &awsv1.KubeletConfiguration{EvictionHard: map[string]string{"memory.available": "5.5%", "nodefs.available": "1Gi"}}
	if faults := Validate(nc); len(faults) != 0 {
		t.Errorf("faults = %v", faults)
	}
}
