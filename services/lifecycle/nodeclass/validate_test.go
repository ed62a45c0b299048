package nodeclass

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	awsv1 "millwright/api/karpenteraws/v1"
)

func TestInterfacesThatNoInstanceCanHaveAreRefusedByName(t *testing.T) {
	primary := awsv1.NetworkInterface{InterfaceType: awsv1.InterfaceTypeInterface}
	efa := func(card, device int32) awsv1.NetworkInterface {
		return awsv1.NetworkInterface{NetworkCardIndex: card, DeviceIndex: device, InterfaceType: awsv1.InterfaceTypeEFAOnly}
	}
	yes := true
	for sentence, c := range map[string]struct {
		interfaces []awsv1.NetworkInterface
		public     *bool
		tracking   *awsv1.ConnectionTracking
		field      string
	}{
		"a primary alone may be public":           {interfaces: []awsv1.NetworkInterface{primary}, public: &yes},
		"EFA on two cards":                        {interfaces: []awsv1.NetworkInterface{primary, efa(0, 1), efa(1, 0)}},
		"EFA has no addresses, so is not primary": {interfaces: []awsv1.NetworkInterface{efa(0, 0)}, field: "spec.networkInterfaces"},
		"a place is taken once":                   {interfaces: []awsv1.NetworkInterface{primary, efa(0, 0)}, field: "spec.networkInterfaces[1]"},
		"a card has one EFA device":               {interfaces: []awsv1.NetworkInterface{primary, efa(1, 0), efa(1, 1)}, field: "spec.networkInterfaces[2]"},
		"several are not public":                  {interfaces: []awsv1.NetworkInterface{primary, efa(1, 0)}, public: &yes, field: "spec.associatePublicIPAddress"},
		"timeouts of which none is set":           {tracking: &awsv1.ConnectionTracking{}, field: "spec.connectionTracking"},
	} {
		t.Run(sentence, func(t *testing.T) {
			nc := class()
			nc.Spec.NetworkInterfaces, nc.Spec.AssociatePublicIPAddress, nc.Spec.ConnectionTracking = c.interfaces, c.public, c.tracking
			faults := Validate(nc)
			if c.field == "" && len(faults) > 0 || c.field != "" && (len(faults) != 1 || faults[0].Field != c.field) {
				t.Errorf("faults = %v, want one of %q", faults, c.field)
			}
		})
	}
}

func TestTermsAreRefusedOnlyIfEveryOneContradictsItself(t *testing.T) {
	tags := map[string]string{"k": "v"}
	for sentence, c := range map[string]struct {
		subnets []awsv1.SubnetSelectorTerm
		groups  []awsv1.SecurityGroupSelectorTerm
		refused string
	}{
		"one of several":           {subnets: []awsv1.SubnetSelectorTerm{{ID: "subnet-1", Tags: tags}, {Tags: tags}}, groups: []awsv1.SecurityGroupSelectorTerm{{ID: "sg-1", Name: "x"}, {Name: "n", Tags: tags}, {Tags: tags}}},
		"every term of subnets":    {subnets: []awsv1.SubnetSelectorTerm{{ID: "subnet-1", Tags: tags}, {ID: "subnet-2", Tags: tags}}, refused: "spec.subnetSelectorTerms[0] spec.subnetSelectorTerms[1]"},
		"every term with an id":    {groups: []awsv1.SecurityGroupSelectorTerm{{ID: "sg-1", Name: "x"}, {ID: "sg-2", Tags: tags}}, refused: "spec.securityGroupSelectorTerms[0] spec.securityGroupSelectorTerms[1]"},
		"every term with a name":   {groups: []awsv1.SecurityGroupSelectorTerm{{Name: "x", Tags: tags}, {ID: "sg-2", Name: "y"}}, refused: "spec.securityGroupSelectorTerms[0] spec.securityGroupSelectorTerms[1]"},
		"each in a way of its own": {groups: []awsv1.SecurityGroupSelectorTerm{{Name: "x", Tags: tags}, {ID: "sg-2", Tags: tags}}},
		"one that is empty":        {subnets: []awsv1.SubnetSelectorTerm{{ID: "subnet-1", Tags: tags}, {}}, refused: "spec.subnetSelectorTerms[1]"},
	} {
		t.Run(sentence, func(t *testing.T) {
			nc := class()
			if c.subnets != nil {
				nc.Spec.SubnetSelectorTerms = c.subnets
			}
			if c.groups != nil {
				nc.Spec.SecurityGroupSelectorTerms = c.groups
			}
			var fields []string
			for _, f := range Validate(nc) {
				fields = append(fields, f.Field)
			}
			if got := strings.Join(fields, " "); got != c.refused {
				t.Errorf("refused %q, want %q", got, c.refused)
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
		"spec.kubelet.evictionHard[memory.available]":  {EvictionHard: map[string]string{"memory.available": ""}},
		"spec.kubelet.evictionSoft[memory.available]":  {EvictionSoft: map[string]string{"memory.available": "1e5.5"}, EvictionSoftGracePeriod: minute},
		"spec.kubelet.evictionHard[nodefs.available]":  {EvictionHard: map[string]string{"nodefs.available": "ten%"}},
		"spec.kubelet.evictionHard[pid.available]":     {EvictionHard: map[string]string{"pid.available": "101%"}},
		"spec.kubelet.evictionHard[imagefs.available]": {EvictionHard: map[string]string{"imagefs.available": "-1Gi"}},
		"spec.kubelet.systemReserved[cpu]":             {SystemReserved: map[string]string{"cpu": "1e5.5"}},
		"spec.kubelet.systemReserved[memory]":          {SystemReserved: map[string]string{"memory": "1e-2000000000"}},
		"spec.kubelet.kubeReserved[cpu]":               {KubeReserved: map[string]string{"memory": "1Gi", "cpu": "-1"}},
		"spec.kubelet.kubeReserved[memory]":            {KubeReserved: map[string]string{"memory": "1e5.5", "cpu": "100m"}},
	} {
		nc := class()
		nc.Spec.Kubelet = k
		if faults := Validate(nc); len(faults) != 1 || faults[0].Field != field {
			t.Errorf("faults = %v, want one of %s", faults, field)
		}
	}
	nc := class()
	nc.Spec.Kubelet = &awsv1.KubeletConfiguration{EvictionHard: map[string]string{"memory.available": "5.5%", "nodefs.available": "1Gi", "pid.available": "100%", "imagefs.available": "0%"}}
	if faults := Validate(nc); len(faults) != 0 {
		t.Errorf("faults = %v", faults)
	}
}

// What a policy adds to Bottlerocket's settings needs a table of the user's to be one.
func TestUserDataIsMergedWithAllThatALaunchAdds(t *testing.T) {
	nc := class()
	family, policy, text := awsv1.AMIFamilyBottlerocket, awsv1.InstanceStorePolicyRAID0, "[settings]\nbootstrap-commands = 3\n"
	nc.Spec.AMISelectorTerms, nc.Spec.AMIFamily, nc.Spec.UserData = []awsv1.AMISelectorTerm{{ID: "ami-1"}}, &family, &text
	if faults := Validate(nc); len(faults) != 0 {
		t.Errorf("without RAID0 nobody touches them: %v", faults)
	}
	nc.Spec.InstanceStorePolicy = &policy
	if faults := Validate(nc); len(faults) != 1 || faults[0].Field != "spec.userData" {
		t.Errorf("faults = %v, want one of spec.userData", faults)
	}
}

// No node would ever register: kubelet ends at its start over each of these, and the CRD lets them in.
func TestThresholdsThatKubeletDoesNotTakeAreRefusedByName(t *testing.T) {
	minute := map[string]metav1.Duration{"memory.available": {Duration: time.Minute}}
	for field, k := range map[string]*awsv1.KubeletConfiguration{
		"spec.kubelet.evictionHard[memory.available]":            {EvictionHard: map[string]string{"memory.available": "0"}},
		"spec.kubelet.evictionHard[nodefs.available]":            {EvictionHard: map[string]string{"nodefs.available": "0Gi", "memory.available": "0%"}},
		"spec.kubelet.evictionSoft[memory.available]":            {EvictionSoft: map[string]string{"memory.available": "0Mi"}, EvictionSoftGracePeriod: minute},
		"spec.kubelet.evictionSoftGracePeriod[memory.available]": {EvictionSoft: map[string]string{"memory.available": "1Gi"}, EvictionSoftGracePeriod: map[string]metav1.Duration{"memory.available": {Duration: -time.Second}}},
	} {
		nc := class()
		nc.Spec.Kubelet = k
		if faults := Validate(nc); len(faults) != 1 || faults[0].Field != field {
			t.Errorf("faults = %v, want one of %s", faults, field)
		}
		nc.Spec.AMIFamily = ptr("Custom") // gets no settings of kubelet from us
		if faults := Validate(nc); len(faults) != 0 {
			t.Errorf("Custom: faults = %v", faults)
		}
	}
	nc := class()
	nc.Spec.Kubelet = &awsv1.KubeletConfiguration{SystemReserved: map[string]string{"cpu": "0"}, KubeReserved: map[string]string{"memory": "0"}, EvictionSoft: map[string]string{"memory.available": "0%"},
		EvictionSoftGracePeriod: map[string]metav1.Duration{"memory.available": {}}}
	if faults := Validate(nc); len(faults) != 0 {
		t.Errorf("faults = %v", faults)
	}
}

// EC2 would refuse each launch of such a class.
func TestTagsThatEC2DoesNotTakeAreRefusedByName(t *testing.T) {
	many := func(n int, more ...string) map[string]string {
		tags := map[string]string{}
		for i := range n - len(more) {
			tags[fmt.Sprint("tag-", i)] = ""
		}
		for _, k := range more {
			tags[k] = "x"
		}
		return tags
	}
	for name, c := range map[string]struct {
		tags map[string]string
		want string
	}{
		"as many as fit beside ours":       {many(43), ""},
		"one more":                         {many(44), "44 tags and 7 of Millwright's are more than the 50 that a resource may have"},
		"one more, but the name is theirs": {many(44, "Name"), ""},
		"reserved by AWS":                  {many(1, "AWS:mine"), `tag "AWS:mine" begins with aws:, which is reserved by AWS`},
		"the longest key and value":        {map[string]string{strings.Repeat("ä", 128): strings.Repeat("ö", 256)}, ""},
		"a longer key":                     {many(1, strings.Repeat("k", 129)), `tag "kkkkkkkkkkkkkkkkkkkk"… has a key of more than 128 characters, which is EC2's limit`},
		"a longer value":                   {map[string]string{"a": strings.Repeat("v", 257)}, `tag "a" has a value of more than 256 characters, which is EC2's limit`},
	} {
		t.Run(name, func(t *testing.T) {
			nc := class()
			nc.Spec.Tags = c.tags
			var got []string
			for _, f := range Validate(nc) {
				if f.Field != fieldTags || f.Reason != "TagValidationFailed" {
					t.Errorf("fault %+v", f)
				}
				got = append(got, f.Message)
			}
			if strings.Join(got, "; ") != c.want {
				t.Errorf("%q, want %q", got, c.want)
			}
		})
	}
}
