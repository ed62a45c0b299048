package nodeclass

import (
	"testing"

	"k8s.io/apimachinery/pkg/api/resource"

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
	nc.Spec.IPPrefixCount, nc.Spec.CPUOptions = new(int32), &awsv1.CPUOptions{}
	if faults := Validate(nc); len(faults) > 0 {
		t.Errorf("faults = %v", faults)
	}
}
