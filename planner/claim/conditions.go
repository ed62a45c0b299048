package claim

import (
	"slices"
	"time"

	karpv1 "millwright/api/karpenter/v1"
	"millwright/planner/condition"
)

// ConditionsOf starts from the conditions of a NodeClaim.
func ConditionsOf(o *karpv1.NodeClaim, now time.Time) *condition.List {
	return &condition.List{
		Generation: o.Generation, Created: o.CreationTimestamp.Time, Now: now, Deleting: !o.DeletionTimestamp.IsZero(),
		Root:       karpv1.ConditionTypeReady,
		Dependents: []string{karpv1.ConditionTypeLaunched, karpv1.ConditionTypeRegistered, karpv1.ConditionTypeInitialized},
		Conditions: slices.Clone(o.Status.Conditions),
	}
}
