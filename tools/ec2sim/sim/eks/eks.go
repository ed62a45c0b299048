// Package eks describes the cluster, and which zones ARC shifts it away from.
package eks

import (
	"encoding/base64"
	"strings"

	"millwright/tools/ec2sim/sim/account"
	"millwright/tools/ec2sim/sim/network"
	"millwright/tools/ec2sim/sim/wire"
	"millwright/tools/ec2sim/simclient"
)

// Cluster is EKS's view of the cluster.
type Cluster struct {
	*account.Account
	vpc *network.VPC
	// shifts of zones, which ARC knows.
	shifts simclient.ZonalShifts
}

// New describes the account's one cluster.
func New(a *account.Account, vpc *network.VPC) *Cluster { return &Cluster{Account: a, vpc: vpc} }

func (s *Cluster) DescribeCluster(c *wire.Call) (any, error) {
	name := strings.Trim(strings.TrimPrefix(c.Path, "/clusters/"), "/")
	if name != s.Cfg.ClusterName {
		e := wire.Refuse("ResourceNotFoundException", "No cluster found for name: %s.", name)
		e.Status = 404
		return nil, e
	}
	var subnets []string
	for _, sub := range s.vpc.Subnets {
		subnets = append(subnets, sub.ID)
	}
	return map[string]any{"cluster": map[string]any{
		"name": name, "arn": s.ARN(),
		"version": s.Cfg.KubernetesVersion, "endpoint": s.Cfg.ClusterEndpoint, "status": "ACTIVE",
		"platformVersion":         "eks.1",
		"certificateAuthority":    map[string]any{"data": base64.StdEncoding.EncodeToString(s.Cfg.ClusterCA)},
		"kubernetesNetworkConfig": map[string]any{"serviceIpv4Cidr": s.Cfg.ServiceCIDR, "ipFamily": "ipv4"},
		"resourcesVpcConfig": map[string]any{"vpcId": s.vpc.VPCID, "subnetIds": subnets,
			"clusterSecurityGroupId": s.vpc.Group("eks-cluster-sg-" + name).ID},
		"tags": map[string]string{network.DiscoveryTag: name},
	}}, nil
}
