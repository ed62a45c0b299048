package userdata

import (
	"cmp"
	"maps"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"

	karpv1 "millwright/api/karpenter/v1"
	awsv1 "millwright/api/karpenteraws/v1"
)

// kubeletDomains are the label domains the kubelet may not set itself; such labels reach the Node at
// registration.
var kubeletDomains = []string{"node-restriction.kubernetes.io", "kubernetes.io", "k8s.io"}

// NodeLabels returns the labels the kubelet registers its node with: the NodeClaim's, less those the kubelet
// may not set, the capacity type, and for all families but Custom the mark that all taints are registered
// too.
func NodeLabels(family string, claim map[string]string, capacityType string) map[string]string {
	labels := map[string]string{}
	for k, v := range claim {
		if !restricted(k) {
			labels[k] = v
		}
	}
	labels[karpv1.CapacityTypeLabelKey] = capacityType
	if family != awsv1.AMIFamilyCustom {
		labels[karpv1.DoNotSyncTaintsLabelKey] = "true"
	}
	return labels
}

func restricted(key string) bool {
	domain, _, found := strings.Cut(key, "/")
	return found && slices.ContainsFunc(kubeletDomains, func(d string) bool { return domain == d || strings.HasSuffix(domain, "."+d) })
}

// NodeTaints returns the taints the kubelet registers its node with: taints, startup taints and the
// unregistered one, unless it is already among them.
func NodeTaints(spec karpv1.NodeClaimSpec) []corev1.Taint {
	taints := slices.Concat(spec.Taints, spec.StartupTaints)
	unregistered := karpv1.UnregisteredTaint()
	if !slices.ContainsFunc(taints, func(t corev1.Taint) bool { return t.MatchTaint(&unregistered) }) {
		taints = append(taints, unregistered)
	}
	for i := range taints {
		taints[i].TimeAdded = nil
	}
	return taints
}

func sortedTaints(taints []corev1.Taint) []corev1.Taint {
	return slices.SortedStableFunc(slices.Values(taints), func(a, b corev1.Taint) int {
		return cmp.Or(cmp.Compare(a.Key, b.Key), cmp.Compare(a.Value, b.Value), cmp.Compare(a.Effect, b.Effect))
	})
}

// pairs joins a map as "k<sep>v,k<sep>v", sorted.
func pairs(m map[string]string, sep string) string {
	var parts []string
	for _, k := range slices.Sorted(maps.Keys(m)) {
		parts = append(parts, k+sep+m[k])
	}
	return strings.Join(parts, ",")
}
