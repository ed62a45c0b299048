// Package v1 holds the Go types of the API group karpenter.k8s.aws, version v1: EC2NodeClass.
//
// Guarantees and non-guarantees are those of the sibling package karpenter/v1.
//
// +groupName=karpenter.k8s.aws
// +kubebuilder:object:generate=true
package v1
