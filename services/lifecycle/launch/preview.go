package launch

import (
	"cmp"

	karpv1 "millwright/api/karpenter/v1"
	awsv1 "millwright/api/karpenteraws/v1"
	"millwright/services/lifecycle/launch/userdata"
)

// Preview is a launch as far as its user data goes, without an account.
type Preview struct {
	NodeClass *awsv1.EC2NodeClass
	Claim     *karpv1.NodeClaim
	Cluster   Cluster
	// CapacityType of the instance.
	CapacityType string
	// MaxPods of the instance type; nil if no type is known. The class's own wins.
	MaxPods *int32
}

// UserData renders what the instance would boot with. An image's name, which tells the version of
// Bottlerocket, is that of the class's status.
func (p Preview) UserData() ([]byte, error) {
	nc := p.NodeClass
	image := ""
	if len(nc.Status.AMIs) > 0 {
		image = nc.Status.AMIs[0].Name
	}
	k := kubelet(nc, p.MaxPods, p.Cluster.DNS)
	return userdata.Render(userDataInput(nc, p.Claim, p.Cluster, p.CapacityType, k, image))
}

// userDataInput is what instances of a class boot with, for a claim.
func userDataInput(nc *awsv1.EC2NodeClass, claim *karpv1.NodeClaim, cluster Cluster, capacityType string, k awsv1.KubeletConfiguration, image string) userdata.Input {
	family := awsv1.AMIFamilyOf(nc)
	return userdata.Input{
		Family: family, Cluster: cluster.Name, Endpoint: cluster.Endpoint, CABundle: cluster.CABundle, ClusterCIDR: cluster.CIDR,
		Labels: userdata.NodeLabels(family, claim.Labels, capacityType), Taints: userdata.NodeTaints(claim.Spec), Kubelet: k,
		UserData: *cmp.Or(nc.Spec.UserData, new(string)), RAID0: raid0(nc), BottlerocketBindsDirs: userdata.BindsDirs(nc, image),
	}
}
