// Package v1beta1 holds the Go types of the API group karpenter.k8s.aws, version v1beta1: EC2NodeClass.
//
// Guarantees and additions are those of the sibling package karpenter/v1beta1.
//
// +groupName=karpenter.k8s.aws
// +kubebuilder:object:generate=true
package v1beta1
