package nodepool

import (
	"fmt"
	"maps"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	quantity "k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	karpv1 "millwright/api/karpenter/v1"
	awsv1 "millwright/api/karpenteraws/v1"
	"millwright/planner/condition"
)

// resourceNodes counts nodes in status.resources and in limits.
const resourceNodes corev1.ResourceName = "nodes"

// baseResources are always named in status.resources.
var baseResources = [...]corev1.ResourceName{corev1.ResourceCPU, corev1.ResourceMemory, corev1.ResourcePods, corev1.ResourceEphemeralStorage}

// Facts about a NodePool that its status follows from, beside the object.
type Facts struct {
	// Sum of its nodes.
	Sum Sum
	// Invalid is what Validate says. Usable: what is invalid, if anything, is budgets.
	Invalid error
	Usable  bool
	// Class it refers to; nil if that is not there or not supported.
	Class *awsv1.EC2NodeClass
	// Registrations are how its last NodeClaims ended, oldest first.
	Registrations []Registration
}

// ClassGeneration is that of the NodeClass; 0 without one.
func (f Facts) ClassGeneration(p *karpv1.NodePool) int64 {
	if f.Class == nil {
		return p.Status.NodeClassObservedGeneration
	}
	return f.Class.Generation
}

// Status is what the pool should have. Its resources always name the base resources.
func Status(p *karpv1.NodePool, f Facts, now time.Time) karpv1.NodePoolStatus {
	status := *p.Status.DeepCopy()
	status.Resources = f.Sum.Capacity.List()
	for _, name := range baseResources {
		if _, has := status.Resources[name]; !has {
			status.Resources[name] = *quantity.NewQuantity(0, quantity.DecimalSI)
		}
	}
	status.Resources[resourceNodes] = *quantity.NewQuantity(f.Sum.Nodes, quantity.DecimalSI)
	status.Nodes, status.NodeClassObservedGeneration = &f.Sum.Nodes, f.ClassGeneration(p)
	c := &condition.List{
		Generation: p.Generation, Created: p.CreationTimestamp.Time, Now: now, Deleting: !p.DeletionTimestamp.IsZero(),
		Root: karpv1.ConditionTypeReady, Dependents: []string{karpv1.ConditionTypeValidationSucceeded, karpv1.ConditionTypeNodeClassReady},
		Conditions: slices.Clone(p.Status.Conditions),
	}
	if f.Invalid != nil && f.Usable { // what is wrong with a budget keeps nobody from making nodes
		c.Dependents = []string{karpv1.ConditionTypeNodeClassReady}
	}
	setValidation(c, f.Invalid)
	setClassReady(c, p, f.Class)
	setRegistrationHealthy(c, f.Registrations)
	status.Conditions = c.Finish()
	return status
}

func setValidation(c *condition.List, invalid error) {
	if invalid != nil {
		c.Set(karpv1.ConditionTypeValidationSucceeded, metav1.ConditionFalse, "NodePoolValidationFailed", invalid.Error())
		return
	}
	c.True(karpv1.ConditionTypeValidationSucceeded)
}

func setClassReady(c *condition.List, p *karpv1.NodePool, nc *awsv1.EC2NodeClass) {
	refuse := func(reason, message string) {
		c.Set(karpv1.ConditionTypeNodeClassReady, metav1.ConditionFalse, reason, message)
	}
	if p.Unreadable != "" {
		c.Set(karpv1.ConditionTypeNodeClassReady, metav1.ConditionUnknown, "NodeClassReadinessUnknown", "nodeClassRef cannot be read")
		return
	}
	switch ref := p.Spec.Template.Spec.NodeClassRef; {
	case !Supported(p):
		refuse("NodeClassNotSupported", fmt.Sprintf("spec.template.spec.nodeClassRef: group %q and kind %q are not supported, must be %q and %q",
			ref.Group, ref.Kind, awsv1.Group, awsv1.KindNodeClass))
	case nc == nil:
		refuse("NodeClassNotFound", "NodeClass not found on cluster")
	case !nc.DeletionTimestamp.IsZero():
		refuse("NodeClassTerminating", "NodeClass is Terminating")
	default:
		switch ready := condition.Get(nc.Status.Conditions, karpv1.ConditionTypeReady); {
		case ready == nil || ready.Status == metav1.ConditionUnknown:
			refuse("NodeClassReadinessUnknown", "Node Class Readiness Unknown")
		case ready.Status == metav1.ConditionFalse:
			refuse(ready.Reason, ready.Message)
		default:
			c.True(karpv1.ConditionTypeNodeClassReady)
		}
	}
}

// SameStatus compares two statuses as the API server stores them.
func SameStatus(a, b karpv1.NodePoolStatus) bool {
	nodes := func(s karpv1.NodePoolStatus) int64 {
		if s.Nodes == nil {
			return -1
		}
		return *s.Nodes
	}
	return nodes(a) == nodes(b) && a.NodeClassObservedGeneration == b.NodeClassObservedGeneration && condition.Equal(a.Conditions, b.Conditions) &&
		maps.EqualFunc(a.Resources, b.Resources, func(x, y quantity.Quantity) bool { return x.Cmp(y) == 0 })
}
