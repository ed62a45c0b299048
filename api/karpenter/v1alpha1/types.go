// Package v1alpha1 holds the API types of karpenter.sh/v1alpha1 as users write them. Callers: the planners and
// millctl plan, which read NodeOverlays.
package v1alpha1

import (
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// Group and Version of the API.
const (
	Group   = "karpenter.sh"
	Version = "v1alpha1"
)

// NodeOverlay changes what planners think of instance types: what they cost, and what else they have.
type NodeOverlay struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata,omitempty"`
	Spec              NodeOverlaySpec   `json:"spec"`
	Status            NodeOverlayStatus `json:"status,omitzero"`
}

// NodeOverlaySpec says which offerings are changed, and how.
type NodeOverlaySpec struct {
	// Requirements that an offering, its instance type and its NodePool must meet; at most 100.
	Requirements []corev1.NodeSelectorRequirement `json:"requirements,omitempty"`
	// Price in USD per hour. Excludes PriceAdjustment.
	Price *string `json:"price,omitempty"`
	// PriceAdjustment is an amount in USD (+1.2, -0.5) or a share (+10%, -15%; at most -100%).
	PriceAdjustment *string `json:"priceAdjustment,omitempty"`
	// Capacity adds extended resources; not cpu, memory, ephemeral-storage or pods.
	Capacity corev1.ResourceList `json:"capacity,omitempty"`
	// Weight 1 to 10000; unset is 0. Of several overlays of one price or resource the heaviest counts.
	Weight *int32 `json:"weight,omitempty"`
}

// NodeOverlayStatus has the condition ValidationSucceeded.
type NodeOverlayStatus struct {
	Conditions []metav1.Condition `json:"conditions,omitempty"`
}
