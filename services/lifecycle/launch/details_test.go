package launch

import (
	"testing"

	"millwright/planner/providerid"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"

	"millwright/services/internal/ec2"
	"millwright/services/lifecycle/nodeclass"
)

// The rules: ec2 §5.
func TestDetails(t *testing.T) {
	nc := readyClass("AL2023")
	efa := kind{name: "m5.large", price: 96, cpu: 2, pods: 29, extra: map[string]int64{"vpc.amazonaws.com/efa": 1, "vpc.amazonaws.com/pod-eni": 9}}
	i := ec2.Instance{ID: "i-1", InstanceType: "m5.large", Zone: "eu-west-1b", CapacityType: "spot", ImageID: "ami-x86"}
	d := Details(nodeclass.Hasher{}, nc, claim(), types(efa)[0], i)
	if diff := cmp.Diff(map[string]string{
		"node.kubernetes.io/instance-type": "m5.large", "topology.kubernetes.io/zone": "eu-west-1b", "topology.k8s.aws/zone-id": "euw1-az2",
		"karpenter.sh/capacity-type": "spot", "kubernetes.io/arch": "amd64", "kubernetes.io/os": "linux",
		"karpenter.k8s.aws/instance-family": "m5", "karpenter.k8s.aws/instance-cpu": "2", "karpenter.k8s.aws/instance-tenancy": "default",
	}, d.Labels); diff != "" {
		t.Error(diff)
	}
	hash, _ := nodeclass.Hasher{}.Current(nc)
	if diff := cmp.Diff(map[string]string{
		"karpenter.k8s.aws/instance-profile-name": "blue_1", "karpenter.k8s.aws/ec2nodeclass-hash": hash, "karpenter.k8s.aws/ec2nodeclass-hash-version": "v5",
	}, d.Annotations); diff != "" {
		t.Error(diff)
	}
	if diff := cmp.Diff(corev1.ResourceList{
		"cpu": resource.MustParse("2"), "memory": resource.MustParse("8Gi"), "pods": resource.MustParse("29"), "vpc.amazonaws.com/pod-eni": resource.MustParse("9"),
	}, d.Capacity); diff != "" {
		t.Error("no EFA was asked for:", diff)
	}
	if q := d.Allocatable["cpu"]; q.String() != "1900m" {
		t.Errorf("allocatable cpu %s", q.String())
	}
	if d.ProviderID != "aws:///eu-west-1b/i-1" || d.ImageID != "ami-x86" || d.Price != 96000/3+1 {
		t.Errorf("%+v", d)
	}

	c := claim([]string{"karpenter.k8s.aws/instance-tenancy", "dedicated"})
	c.Annotations = map[string]string{"karpenter.k8s.aws/ec2nodeclass-hash": "older"}
	c.Spec.Resources.Requests["vpc.amazonaws.com/efa"] = resource.MustParse("1")
	d = Details(nodeclass.Hasher{}, nc, c, types(efa)[0], i)
	if _, ok := d.Annotations["karpenter.k8s.aws/ec2nodeclass-hash"]; ok {
		t.Error("the hash a claim was made with was replaced")
	}
	if q := d.Capacity["vpc.amazonaws.com/efa"]; q.Value() != 1 || d.Labels["karpenter.k8s.aws/instance-tenancy"] != "dedicated" {
		t.Errorf("%v %v", d.Capacity, d.Labels)
	}

	d = Details(nodeclass.Hasher{}, nil, claim(), nil, i)
	if d.Capacity != nil || d.Labels["node.kubernetes.io/instance-type"] != "m5.large" || len(d.Annotations) != 0 {
		t.Errorf("type and class unknown: %+v", d)
	}
}

// The rules: ec2 §5.
func TestProviderID(t *testing.T) {
	zone, id, err := providerid.Parse(providerid.Of("eu-west-1a", "i-0123456789abcdef0"))
	if err != nil || zone != "eu-west-1a" || id != "i-0123456789abcdef0" {
		t.Error(zone, id, err)
	}
	for _, bad := range []string{"", "aws:///eu-west-1a", "gce:///a/i-1", "aws:///a/b/i-1", "aws:///a/vol-1"} {
		if _, _, err := providerid.Parse(bad); err == nil {
			t.Errorf("%q was parsed", bad)
		}
	}
}
