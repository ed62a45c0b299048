package claim

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	karpv1 "millwright/api/karpenter/v1"
	"millwright/planner/condition"
)

// Difference says in what a NodeClaim differs from the one that is wanted, without times; "" if in no more
// than that.
func Difference(have, want *karpv1.NodeClaim) string {
	var list []string
	list = append(list, missing("label", have.Labels, want.Labels)...)
	list = append(list, missing("annotation", have.Annotations, want.Annotations)...)
	for _, c := range want.Status.Conditions {
		if x := condition.Get(have.Status.Conditions, c.Type); x == nil || untimed(*x) != untimed(c) {
			list = append(list, fmt.Sprintf("condition %s=%s, %s, %s", c.Type, c.Status, c.Reason, c.Message))
		}
	}
	for _, c := range have.Status.Conditions {
		if condition.Get(want.Status.Conditions, c.Type) == nil {
			list = append(list, "no condition "+c.Type)
		}
	}
	x, y := have.Status, want.Status
	for field, values := range map[string][2]string{"nodeName": {x.NodeName, y.NodeName}, "providerID": {x.ProviderID, y.ProviderID}, "imageID": {x.ImageID, y.ImageID},
		"lastPodEventTime": {x.LastPodEventTime.String(), y.LastPodEventTime.String()}} {
		if values[0] != values[1] {
			list = append(list, field+"="+values[1])
		}
	}
	slices.Sort(list)
	return strings.Join(list, "; ")
}

// missing are the entries that are not there as they are wanted.
func missing(kind string, have, want map[string]string) (list []string) {
	for _, key := range slices.Sorted(maps.Keys(want)) {
		if value, ok := have[key]; !ok || value != want[key] {
			list = append(list, kind+" "+key+"="+want[key])
		}
	}
	return list
}

func untimed(c metav1.Condition) metav1.Condition {
	c.LastTransitionTime = metav1.Time{}
	return c
}
