package userdata

import (
	"fmt"
	"net/netip"
	"strconv"
	"strings"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// kubeletArgs returns the kubelet's command line for AL2 and Windows (userdata §2): fixed order, absent ones
// left out.
func kubeletArgs(in Input) string {
	k := in.Kubelet
	var args argList
	args.quoted("node-labels", pairs(in.Labels, "="))
	args.quoted("register-with-taints", taintArg(in.Taints))
	args.number("max-pods", k.MaxPods)
	args.number("pods-per-core", k.PodsPerCore)
	args.quoted("system-reserved", pairs(k.SystemReserved, "="))
	args.quoted("kube-reserved", pairs(k.KubeReserved, "="))
	args.quoted("eviction-hard", pairs(k.EvictionHard, "<"))
	args.quoted("eviction-soft", pairs(k.EvictionSoft, "<"))
	args.quoted("eviction-soft-grace-period", pairs(durationTexts(k.EvictionSoftGracePeriod), "="))
	args.number("eviction-max-pod-grace-period", k.EvictionMaxPodGracePeriod)
	args.number("image-gc-high-threshold", k.ImageGCHighThresholdPercent)
	args.number("image-gc-low-threshold", k.ImageGCLowThresholdPercent)
	if k.CPUCFSQuota != nil {
		args = append(args, "--cpu-cfs-quota="+strconv.FormatBool(*k.CPUCFSQuota))
	}
	return strings.Join(args, " ")
}

type argList []string

func (a *argList) quoted(name, value string) {
	if value != "" {
		*a = append(*a, fmt.Sprintf("--%s=%q", name, value))
	}
}

func (a *argList) number(name string, n *int32) {
	if n != nil {
		*a = append(*a, fmt.Sprintf("--%s=%d", name, *n))
	}
}

func taintArg(taints []corev1.Taint) string {
	var parts []string
	for _, t := range taints {
		part := t.Key
		if t.Value != "" {
			part += "=" + t.Value
		}
		parts = append(parts, part+":"+string(t.Effect))
	}
	return strings.Join(parts, ",")
}

func durationTexts(m map[string]metav1.Duration) map[string]string {
	texts := make(map[string]string, len(m))
	for k, d := range m {
		texts[k] = d.Duration.String()
	}
	return texts
}

func firstDNS(in Input) string {
	if len(in.Kubelet.ClusterDNS) == 0 {
		return ""
	}
	return in.Kubelet.ClusterDNS[0]
}

// isIPv6 reports an address that is one and is not IPv4.
func isIPv6(text string) bool {
	a, err := netip.ParseAddr(text)
	return err == nil && !a.Unmap().Is4()
}
