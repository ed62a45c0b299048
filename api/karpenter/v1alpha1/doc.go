// Package v1alpha1 holds the Go types of the API group karpenter.sh, version v1alpha1: NodeOverlay.
//
// Guarantees: field names and serialised forms are those of the Karpenter API. Not guaranteed: what the schema cannot say,
// such as conflicts between NodeOverlays; see planner/provision. Nothing here does I/O.
//
// +groupName=karpenter.sh
// +kubebuilder:object:generate=true
package v1alpha1
