// Package v1 holds the Go types of the API group karpenter.sh, version v1: NodePool and NodeClaim.
//
// Guarantees: field names, defaults and serialised forms are those of the Karpenter v1 API, so manifests
// and objects of a running cluster decode without loss. Durations serialise back exactly as written.
// Not guaranteed: validation of what a CRD schema cannot say; planner/requirement and services/lifecycle have that.
// Nothing here does I/O.
//
// +groupName=karpenter.sh
// +kubebuilder:object:generate=true
package v1
