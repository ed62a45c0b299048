package sim

import (
	"encoding/base64"
	"encoding/json"
	"strings"
)

func describeCluster(s *Server, c *call) (any, error) {
	name := strings.Trim(strings.TrimPrefix(c.path, "/clusters/"), "/")
	if name != s.cfg.ClusterName {
		e := refuse("ResourceNotFoundException", "No cluster found for name: %s.", name)
		e.Status = 404
		return nil, e
	}
	var subnets []string
	for _, sub := range s.network.subnets {
		subnets = append(subnets, sub.ID)
	}
	return map[string]any{"cluster": map[string]any{
		"name": name, "arn": "arn:aws:eks:" + s.region.Name + ":" + s.cfg.AccountID + ":cluster/" + name,
		"version": s.cfg.KubernetesVersion, "endpoint": s.cfg.ClusterEndpoint, "status": "ACTIVE",
		"platformVersion":         "eks.1",
		"certificateAuthority":    map[string]any{"data": base64.StdEncoding.EncodeToString(s.cfg.ClusterCA)},
		"kubernetesNetworkConfig": map[string]any{"serviceIpv4Cidr": s.cfg.ServiceCIDR, "ipFamily": "ipv4"},
		"resourcesVpcConfig": map[string]any{"vpcId": s.network.vpcID, "subnetIds": subnets,
			"clusterSecurityGroupId": s.network.group("eks-cluster-sg-" + name).ID},
		"tags": map[string]string{DiscoveryTag: name},
	}}, nil
}

// readJSON decodes the body of a JSON-protocol call.
func readJSON(c *call, into any) error {
	if err := json.Unmarshal(c.body, into); err != nil {
		return refuse("SerializationException", "The request is not valid JSON: %s", err)
	}
	return nil
}
