package v1beta1

import (
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// StrategyActiveCapacity is the provisioning strategy that keeps nodes ready for the buffer. Others are another provisioner's.
const StrategyActiveCapacity = "buffer.x-k8s.io/active-capacity"

// Annotations of virtual pods: that they are, and of which buffer.
const (
	VirtualPodAnnotation      = "karpenter.sh/capacity-buffer-fake-pod"
	BufferNameAnnotation      = "karpenter.sh/capacity-buffer-name"
	BufferNamespaceAnnotation = "karpenter.sh/capacity-buffer-namespace"
)

// Conditions of a CapacityBuffer, and their reasons.
const (
	// ConditionReadyForProvisioning: what the buffer refers to is found, and says how much to hold.
	ConditionReadyForProvisioning = "ReadyForProvisioning"
	ReasonResolved                = "Resolved"
	ReasonScalableRefNotFound     = "ScalableRefNotFound"
	ReasonPodTemplateNotFound     = "PodTemplateNotFound"
	ReasonResolutionFailed        = "ResolutionFailed"

	// ConditionProvisioning: the nodes there are hold the whole buffer.
	ConditionProvisioning      = "Provisioning"
	ReasonFitsExistingCapacity = "FitsExistingCapacity"
	ReasonRequiresNewCapacity  = "RequiresNewCapacity"
	ReasonNotReady             = "NotReadyForProvisioning"
	ReasonBufferEmpty          = "BufferEmpty"
)

// +kubebuilder:object:root=true
// +kubebuilder:subresource:status
// +kubebuilder:resource:path=capacitybuffers,scope=Namespaced,categories=autoscaling,shortName=cb
// +kubebuilder:storageversion
// +kubebuilder:printcolumn:name="Strategy",type="string",JSONPath=".spec.provisioningStrategy"
// +kubebuilder:printcolumn:name="PodTemplate",type="string",JSONPath=".status.podTemplateRef.name"
// +kubebuilder:printcolumn:name="Replicas",type="integer",JSONPath=".status.replicas"
// +kubebuilder:printcolumn:name="ConditionsType",type="string",JSONPath=".status.conditions[*].type"
// +kubebuilder:printcolumn:name="ConditionsStatus",type="string",JSONPath=".status.conditions[*].status"
// +kubebuilder:printcolumn:name="ConditionsReason",type="string",JSONPath=".status.conditions[*].reason"
// +kubebuilder:printcolumn:name="Age",type="date",JSONPath=".metadata.creationTimestamp"

// CapacityBuffer asks for room to be kept free for pods to come.
type CapacityBuffer struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata,omitempty"`

	Spec   CapacityBufferSpec   `json:"spec"`
	Status CapacityBufferStatus `json:"status,omitzero"`

	// Unreadable says why Go cannot read the spec the API server accepted, with the field; the spec is empty then.
	Unreadable string `json:"-"`
}

// +kubebuilder:object:root=true

// CapacityBufferList is a list of CapacityBuffers.
type CapacityBufferList struct {
	metav1.TypeMeta `json:",inline"`
	metav1.ListMeta `json:"metadata,omitempty"`
	Items           []CapacityBuffer `json:"items"`
}

// CapacityBufferSpec says for what pods room is kept, and for how many.
// +kubebuilder:validation:XValidation:message="If podTemplateRef is set, replicas or limits must also be set",rule="!has(self.podTemplateRef) || has(self.replicas) || has(self.limits)"
// +kubebuilder:validation:XValidation:message="You must define either PodTemplateRef or ScalableRef, but not both",rule="(has(self.podTemplateRef) && !has(self.scalableRef)) || (!has(self.podTemplateRef) && has(self.scalableRef))"
type CapacityBufferSpec struct {
	// ProvisioningStrategy says who keeps the room and how; others than the default are left alone.
	// +kubebuilder:default="buffer.x-k8s.io/active-capacity"
	// +optional
	ProvisioningStrategy *string `json:"provisioningStrategy,omitempty"`
	// PodTemplateRef names a PodTemplate of the same namespace. Excludes ScalableRef.
	// +optional
	PodTemplateRef *LocalObjectRef `json:"podTemplateRef,omitempty"`
	// ScalableRef names a Deployment, StatefulSet or ReplicaSet of the same namespace, whose pod template counts.
	// +optional
	ScalableRef *ScalableRef `json:"scalableRef,omitempty"`
	// Replicas is for how many pods there is to be room. With Percentage the larger of both counts.
	// +kubebuilder:validation:Minimum:=0
	// +optional
	Replicas *int32 `json:"replicas,omitempty"`
	// Percentage of the replicas of what ScalableRef names, rounded up, at least one pod.
	// +kubebuilder:validation:Minimum:=0
	// +optional
	Percentage *int32 `json:"percentage,omitempty"`
	// Limits bound what the pods of the buffer request together. Alone they say how many there are.
	// +optional
	Limits corev1.ResourceList `json:"limits,omitempty"`
}

// LocalObjectRef names an object of the same namespace.
type LocalObjectRef struct {
	// +kubebuilder:validation:MinLength:=1
	// +required
	Name string `json:"name"`
}

// ScalableRef names an object with replicas and a pod template.
type ScalableRef struct {
	// +optional
	APIGroup string `json:"apiGroup,omitempty"`
	// +kubebuilder:validation:MinLength:=1
	// +required
	Kind string `json:"kind"`
	// +kubebuilder:validation:MinLength:=1
	// +required
	Name string `json:"name"`
}

// CapacityBufferStatus is what the buffer comes to.
type CapacityBufferStatus struct {
	// PodTemplateRef is the PodTemplate that counts; unset for a ScalableRef.
	// +optional
	PodTemplateRef *LocalObjectRef `json:"podTemplateRef,omitempty"`
	// Replicas is for how many pods room is kept.
	// +optional
	Replicas *int32 `json:"replicas,omitempty"`
	// PodTemplateGeneration is the generation of the PodTemplate that counts.
	// +optional
	PodTemplateGeneration *int64 `json:"podTemplateGeneration,omitempty"`
	// +listType=map
	// +listMapKey=type
	// +optional
	Conditions []metav1.Condition `json:"conditions,omitempty"`
	// ProvisioningStrategy that is followed.
	// +optional
	ProvisioningStrategy *string `json:"provisioningStrategy,omitempty"`
}
