// Package v1beta1 holds the Go types of the API group karpenter.sh, version v1beta1: NodePool and NodeClaim as
// Karpenter 0.32 to 0.37 had them (reference: api §5).
//
// It also has the fields that v1 got after 1.0 (replicas, the operators Gte and Lte, the policy Balanced, status fields):
// Karpenter's v1beta1 never had them, and without them a client of v1beta1 that writes back what it has read would erase them.
//
// Guarantees: serialised forms are those of the API. Not for use at run time: conversion works on JSON. The CRDs that
// serve v1beta1 are generated from these types. Nothing here does I/O.
//
// +groupName=karpenter.sh
// +kubebuilder:object:generate=true
package v1beta1
