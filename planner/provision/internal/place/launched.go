package place

import (
	corev1 "k8s.io/api/core/v1"

	karpv1 "millwright/api/karpenter/v1"
	"millwright/planner/ledger"
	"millwright/planner/requirement"
)

// launchedRequirements is what is certain of a claim once its instance is known.
func launchedRequirements(got *ledger.Launched) requirement.Set {
	return requirement.FromLabels(got.Labels).Intersection(requirement.NewSet(
		requirement.In(corev1.LabelInstanceTypeStable, got.InstanceType),
		requirement.In(corev1.LabelTopologyZone, got.Zone),
		requirement.In(karpv1.CapacityTypeLabelKey, got.CapacityType),
	))
}
