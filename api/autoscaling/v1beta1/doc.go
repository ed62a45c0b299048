// Package v1beta1 holds the Go types of the API group autoscaling.x-k8s.io, version v1beta1: CapacityBuffer.
//
// The API is shared: cluster-autoscaler and Karpenter serve it too, so Millwright installs the CRD only where there is none and
// never changes one. Guarantees: field names and serialised forms are those of the shared API. Nothing here does I/O.
//
// +groupName=autoscaling.x-k8s.io
// +kubebuilder:object:generate=true
package v1beta1
