package boot

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/BurntSushi/toml"
	corev1 "k8s.io/api/core/v1"
)

// bottlerocketSettings is the user data of Bottlerocket. Taints are a map of lists of "value:Effect".
type bottlerocketSettings struct {
	Settings struct {
		Kubernetes struct {
			ClusterName    string              `toml:"cluster-name"`
			APIServer      string              `toml:"api-server"`
			Certificate    string              `toml:"cluster-certificate"`
			Labels         map[string]string   `toml:"node-labels"`
			Taints         map[string][]string `toml:"node-taints"`
			MaxPods        int                 `toml:"max-pods"`
			ClusterDNS     any                 `toml:"cluster-dns-ip"`
			KubeReserved   map[string]string   `toml:"kube-reserved"`
			SystemReserved map[string]string   `toml:"system-reserved"`
			EvictionHard   map[string]string   `toml:"eviction-hard"`
		} `toml:"kubernetes"`
		Commands map[string]any `toml:"bootstrap-commands"`
	} `toml:"settings"`
}

func decodeBottlerocket(text string) (*Bootstrap, error) {
	var s bottlerocketSettings
	if _, err := toml.Decode(text, &s); err != nil {
		return nil, fmt.Errorf("read Bottlerocket settings: %w", err)
	}
	k := s.Settings.Kubernetes
	if k.ClusterName == "" || k.APIServer == "" {
		return nil, errors.New("settings.kubernetes lacks cluster-name or api-server")
	}
	b := &Bootstrap{Family: Bottlerocket, ClusterName: k.ClusterName, Endpoint: k.APIServer, CA: k.Certificate,
		Kubelet: Kubelet{Labels: k.Labels, MaxPods: k.MaxPods, KubeReserved: k.KubeReserved, SystemReserved: k.SystemReserved,
			EvictionHard: k.EvictionHard}}
	if ip, ok := k.ClusterDNS.(string); ok {
		b.ClusterDNS = []string{ip}
	}
	_, b.RAID0 = s.Settings.Commands["000-mount-instance-storage"]
	for _, key := range slices.Sorted(maps.Keys(k.Taints)) {
		for _, item := range k.Taints[key] {
			value, effect, ok := strings.Cut(item, ":")
			if !ok {
				return nil, fmt.Errorf("node-taints %s: %q is not a taint", key, item)
			}
			b.Kubelet.Taints = append(b.Kubelet.Taints, corev1.Taint{Key: key, Value: value, Effect: corev1.TaintEffect(effect)})
		}
	}
	return b, nil
}
