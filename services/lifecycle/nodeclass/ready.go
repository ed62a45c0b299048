package nodeclass

import (
	"fmt"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	karpv1 "millwright/api/karpenter/v1"
	awsv1 "millwright/api/karpenteraws/v1"
	"millwright/planner/condition"
	"millwright/services/internal/ec2"
)

// Ready returns nil if a launch may use the class, else why not (ec2 §4.1). nc is nil if the class does not
// exist. A class that is going away counts as missing, and both as no capacity; Ready False is NotReady; a
// status that is unknown or older than the spec is Transient: it will be known soon.
func Ready(nc *awsv1.EC2NodeClass) error {
	if nc == nil {
		return &ec2.Failure{Class: ec2.NoCapacity, Reason: "NodeClassNotFound", Message: "Failed resolving NodeClass"}
	}
	if nc.DeletionTimestamp != nil {
		return &ec2.Failure{Class: ec2.NoCapacity, Reason: "NodeClassTerminating",
			Message: fmt.Sprintf("EC2NodeClass %s is terminating, treating as not found", nc.Name)}
	}
	c := condition.Get(nc.Status.Conditions, karpv1.ConditionTypeReady)
	switch {
	case c == nil || c.Status == metav1.ConditionUnknown:
		return &ec2.Failure{Class: ec2.Transient, Reason: "NodeClassReadinessUnknown", Message: "NodeClass is in an unknown readiness state"}
	case c.ObservedGeneration != nc.Generation:
		return &ec2.Failure{Class: ec2.Transient, Reason: "NodeClassReadinessUnknown", Message: "nodeclass status has not been reconciled against the latest spec"}
	case c.Status == metav1.ConditionFalse:
		return &ec2.Failure{Class: ec2.NotReady, Reason: "NodeClassNotReady", Message: c.Message}
	}
	return nil
}
