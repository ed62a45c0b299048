package boot

import (
	"errors"
	"fmt"

	"sigs.k8s.io/yaml"
)

// nodeConfig is nodeadm's document, as far as it matters here.
type nodeConfig struct {
	APIVersion string `json:"apiVersion"`
	Kind       string `json:"kind"`
	Spec       struct {
		Cluster struct {
			Name     string `json:"name"`
			Endpoint string `json:"apiServerEndpoint"`
			CA       string `json:"certificateAuthority"`
			CIDR     string `json:"cidr"`
		} `json:"cluster"`
		Instance struct {
			LocalStorage struct {
				Strategy string `json:"strategy"`
			} `json:"localStorage"`
		} `json:"instance"`
		Kubelet struct {
			Config map[string]any `json:"config"`
			Flags  []string       `json:"flags"`
		} `json:"kubelet"`
	} `json:"spec"`
}

// decodeNodeConfigs merges NodeConfigs in order, as nodeadm does: maps deeply, flags by appending, everything
// else by the later value.
func decodeNodeConfigs(texts []string) (*Bootstrap, error) {
	merged := map[string]any{}
	for _, text := range texts {
		var doc map[string]any
		if err := yaml.Unmarshal([]byte(text), &doc); err != nil {
			return nil, fmt.Errorf("read NodeConfig: %w", err)
		}
		mergeInto(merged, doc)
	}
	data, err := yaml.Marshal(merged)
	if err != nil {
		return nil, fmt.Errorf("merge NodeConfigs: %w", err)
	}
	var c nodeConfig
	if err := yaml.Unmarshal(data, &c); err != nil {
		return nil, fmt.Errorf("read NodeConfig: %w", err)
	}
	return c.bootstrap()
}

func mergeInto(base, over map[string]any) {
	for key, value := range over {
		switch v := value.(type) {
		case map[string]any:
			if b, ok := base[key].(map[string]any); ok {
				mergeInto(b, v)
				continue
			}
		case []any:
			if b, ok := base[key].([]any); ok && key == "flags" {
				base[key] = append(b, v...)
				continue
			}
		}
		base[key] = value
	}
}

func (c *nodeConfig) bootstrap() (*Bootstrap, error) {
	switch {
	case c.APIVersion != "node.eks.aws/v1alpha1" || c.Kind != "NodeConfig":
		return nil, fmt.Errorf("%s %s is not a NodeConfig", c.APIVersion, c.Kind)
	case c.Spec.Cluster.Name == "" || c.Spec.Cluster.Endpoint == "" || c.Spec.Cluster.CA == "" || c.Spec.Cluster.CIDR == "":
		return nil, errors.New("the NodeConfig lacks the cluster's name, apiServerEndpoint, certificateAuthority or cidr")
	}
	b := &Bootstrap{Family: AL2023, ClusterName: c.Spec.Cluster.Name, Endpoint: c.Spec.Cluster.Endpoint, CA: c.Spec.Cluster.CA,
		RAID0: c.Spec.Instance.LocalStorage.Strategy == "RAID0"}
	data, err := yaml.Marshal(c.Spec.Kubelet.Config)
	if err != nil {
		return nil, fmt.Errorf("read kubelet config: %w", err)
	}
	var k kubeletConfig
	if err := yaml.Unmarshal(data, &k); err != nil {
		return nil, fmt.Errorf("read kubelet config: %w", err)
	}
	b.ClusterDNS, b.Kubelet = k.ClusterDNS, k.kubelet()
	for _, flag := range c.Spec.Kubelet.Flags {
		if err := b.Kubelet.applyFlags(flag); err != nil {
			return nil, err
		}
	}
	return b, nil
}
