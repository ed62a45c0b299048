package nodeclass

import (
	"slices"
	"time"

	karpv1 "millwright/api/karpenter/v1"
	awsv1 "millwright/api/karpenteraws/v1"
	"millwright/planner/condition"
)

// reasonWaiting is that of conditions which only say that others are not True.
const reasonWaiting = "DependenciesNotReady"

// resolved are the conditions of what is looked up before the rest is tried.
var resolved = [...]string{
	awsv1.ConditionTypeAMIsReady, awsv1.ConditionTypeSubnetsReady, awsv1.ConditionTypeSecurityGroupsReady, awsv1.ConditionTypeInstanceProfileReady,
}

// newConditions starts from what the status has (api §3); what is missing is Unknown since the object was
// made.
func newConditions(nc *awsv1.EC2NodeClass, now time.Time) *condition.List {
	c := &condition.List{
		Generation: nc.Generation, Created: nc.CreationTimestamp.Time, Now: now, Root: karpv1.ConditionTypeReady,
		Dependents: []string{
			awsv1.ConditionTypeAMIsReady, awsv1.ConditionTypeCapacityReservationsReady, awsv1.ConditionTypeInstanceProfileReady,
			awsv1.ConditionTypePlacementGroupReady, awsv1.ConditionTypeSecurityGroupsReady, awsv1.ConditionTypeSubnetsReady, karpv1.ConditionTypeValidationSucceeded,
		},
		Conditions: slices.Clone(nc.Status.Conditions),
	}
	c.Await()
	return c
}
