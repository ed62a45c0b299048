package v1

import (
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

// Group is the API group of NodePool and NodeClaim.
const Group = "karpenter.sh"

// SchemeGroupVersion is karpenter.sh/v1.
var SchemeGroupVersion = schema.GroupVersion{Group: Group, Version: "v1"}

// Labels.
const (
	NodePoolLabelKey        = Group + "/nodepool"
	CapacityTypeLabelKey    = Group + "/capacity-type"
	NodeRegisteredLabelKey  = Group + "/registered"
	NodeInitializedLabelKey = Group + "/initialized"
	// DoNotSyncTaintsLabelKey on a Node: registration leaves its taints alone, kubelet set them all.
	DoNotSyncTaintsLabelKey = Group + "/do-not-sync-taints"
	// ExcludeFromLoadBalancersValue is the value of node.kubernetes.io/exclude-from-external-load-balancers.
	ExcludeFromLoadBalancersValue = "karpenter"
)

// Values of the capacity-type label.
const (
	CapacityTypeSpot     = "spot"
	CapacityTypeOnDemand = "on-demand"
	CapacityTypeReserved = "reserved"
)

// Annotations.
const (
	DoNotDisruptAnnotationKey         = Group + "/do-not-disrupt"
	NodePoolHashAnnotationKey         = Group + "/nodepool-hash"
	NodePoolHashVersionAnnotationKey  = Group + "/nodepool-hash-version"
	TerminationTimestampAnnotationKey = Group + "/nodeclaim-termination-timestamp"
	MinValuesRelaxedAnnotationKey     = Group + "/nodeclaim-min-values-relaxed"
	// PriceOverlayAnnotationKey and CapacityOverlayAnnotationKey mark claims some of whose types a NodeOverlay has changed.
	PriceOverlayAnnotationKey    = Group + "/price-overlay-applied"
	CapacityOverlayAnnotationKey = Group + "/capacity-overlay-applied"
	// RecordAnnotationKey on what Millwright creates: "<log-id>/<sequence of the record that planned it as it is>"; on a Node
	// that a command takes away: of the record that started the command.
	RecordAnnotationKey = "millwright.sh/record"
)

// TerminationFinalizer is on NodeClaims and their Nodes until the instance is gone.
const TerminationFinalizer = Group + "/termination"

// Taint keys.
const (
	UnregisteredTaintKey = Group + "/unregistered"
	DisruptedTaintKey    = Group + "/disrupted"
)

// UnregisteredTaint is registered by kubelet and removed at registration.
func UnregisteredTaint() corev1.Taint {
	return corev1.Taint{Key: UnregisteredTaintKey, Effect: corev1.TaintEffectNoExecute}
}

// DisruptedTaint keeps new pods off a node that is going away.
func DisruptedTaint() corev1.Taint {
	return corev1.Taint{Key: DisruptedTaintKey, Effect: corev1.TaintEffectNoSchedule}
}

// Condition types of NodeClaim, NodePool and EC2NodeClass.
const (
	ConditionTypeReady                   = "Ready"
	ConditionTypeLaunched                = "Launched"
	ConditionTypeRegistered              = "Registered"
	ConditionTypeInitialized             = "Initialized"
	ConditionTypeConsolidatable          = "Consolidatable"
	ConditionTypeDrifted                 = "Drifted"
	ConditionTypeDisruptionReason        = "DisruptionReason"
	ConditionTypeDrained                 = "Drained"
	ConditionTypeVolumesDetached         = "VolumesDetached"
	ConditionTypeInstanceTerminating     = "InstanceTerminating"
	ConditionTypeConsistentStateFound    = "ConsistentStateFound"
	ConditionTypeValidationSucceeded     = "ValidationSucceeded"
	ConditionTypeNodeClassReady          = "NodeClassReady"
	ConditionTypeNodeRegistrationHealthy = "NodeRegistrationHealthy"
)
