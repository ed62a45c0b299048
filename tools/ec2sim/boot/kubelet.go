package boot

import (
	"fmt"
	"strconv"
	"strings"

	"github.com/google/shlex"
	corev1 "k8s.io/api/core/v1"
)

// kubeletConfig is the part of KubeletConfiguration that shapes a Node.
type kubeletConfig struct {
	ClusterDNS         []string          `json:"clusterDNS"`
	MaxPods            int               `json:"maxPods"`
	PodsPerCore        int               `json:"podsPerCore"`
	KubeReserved       map[string]string `json:"kubeReserved"`
	SystemReserved     map[string]string `json:"systemReserved"`
	EvictionHard       map[string]string `json:"evictionHard"`
	RegisterWithTaints []corev1.Taint    `json:"registerWithTaints"`
}

func (c *kubeletConfig) kubelet() Kubelet {
	return Kubelet{Labels: map[string]string{}, Taints: c.RegisterWithTaints, MaxPods: c.MaxPods, PodsPerCore: c.PodsPerCore,
		KubeReserved: c.KubeReserved, SystemReserved: c.SystemReserved, EvictionHard: c.EvictionHard}
}

// applyFlags reads a kubelet command line. It ignores flags it does not know, as they do not shape the Node.
func (k *Kubelet) applyFlags(text string) error {
	words, err := shlex.Split(text)
	if err != nil {
		return fmt.Errorf("split the kubelet's flags: %w", err)
	}
	for _, word := range words {
		name, value, _ := strings.Cut(word, "=")
		if err := k.applyFlag(name, value); err != nil {
			return fmt.Errorf("kubelet flag %s: %w", name, err)
		}
	}
	return nil
}

func (k *Kubelet) applyFlag(name, value string) (err error) {
	switch name {
	case "--node-labels":
		if k.Labels == nil {
			k.Labels = map[string]string{}
		}
		return pairs(value, "=", k.Labels)
	case "--register-with-taints":
		k.Taints, err = parseTaints(value)
	case "--max-pods":
		k.MaxPods, err = strconv.Atoi(value)
	case "--pods-per-core":
		k.PodsPerCore, err = strconv.Atoi(value)
	case "--kube-reserved":
		k.KubeReserved = map[string]string{}
		return pairs(value, "=", k.KubeReserved)
	case "--system-reserved":
		k.SystemReserved = map[string]string{}
		return pairs(value, "=", k.SystemReserved)
	case "--eviction-hard":
		k.EvictionHard = map[string]string{}
		return pairs(value, "<", k.EvictionHard)
	}
	return err
}

// pairs reads "k=v,k=v" with a separator between key and value.
func pairs(text, separator string, into map[string]string) error {
	for item := range strings.SplitSeq(text, ",") {
		if item == "" {
			continue
		}
		key, value, ok := strings.Cut(item, separator)
		if !ok || key == "" {
			return fmt.Errorf("%q is not a pair", item)
		}
		into[key] = value
	}
	return nil
}

// parseTaints reads "key=value:Effect,key:Effect".
func parseTaints(text string) ([]corev1.Taint, error) {
	var out []corev1.Taint
	for item := range strings.SplitSeq(text, ",") {
		if item == "" {
			continue
		}
		left, effect, ok := strings.Cut(item, ":")
		if !ok {
			return nil, fmt.Errorf("%q is not a taint", item)
		}
		key, value, _ := strings.Cut(left, "=")
		out = append(out, corev1.Taint{Key: key, Value: value, Effect: corev1.TaintEffect(effect)})
	}
	return out, nil
}

// check refuses what a kubelet would refuse to start with.
func (k *Kubelet) check() error {
	for key := range k.Labels {
		if forbiddenLabel(key) {
			return fmt.Errorf("unknown 'kubernetes.io' or 'k8s.io' label %s specified with --node-labels", key)
		}
	}
	for _, t := range k.Taints {
		switch t.Effect {
		case corev1.TaintEffectNoSchedule, corev1.TaintEffectPreferNoSchedule, corev1.TaintEffectNoExecute:
		default:
			return fmt.Errorf("invalid taint effect %q", t.Effect)
		}
	}
	return nil
}

// ownLabels are the kubernetes.io labels that a kubelet may set on itself.
var ownLabels = map[string]bool{
	corev1.LabelHostname: true, corev1.LabelTopologyZone: true, corev1.LabelTopologyRegion: true,
	corev1.LabelInstanceTypeStable: true, corev1.LabelInstanceType: true, corev1.LabelOSStable: true, corev1.LabelArchStable: true,
	corev1.LabelFailureDomainBetaZone: true, corev1.LabelFailureDomainBetaRegion: true,
	"beta.kubernetes.io/os": true, "beta.kubernetes.io/arch": true,
}

func forbiddenLabel(key string) bool {
	domain, _, ok := strings.Cut(key, "/")
	if !ok || ownLabels[key] || within(domain, "kubelet.kubernetes.io") || within(domain, "node.kubernetes.io") {
		return false
	}
	return within(domain, "kubernetes.io") || within(domain, "k8s.io")
}

func within(domain, parent string) bool {
	return domain == parent || strings.HasSuffix(domain, "."+parent)
}
