// Package v1alpha1 holds the Go types of the API group millwright.sh, version v1alpha1: DisruptionPolicy.
//
// Guarantees: what the schema admits can be read by planner/disrupt, but for cron expressions and names of
// time zones, which the condition Ready reports. Nothing here does I/O.
//
// +groupName=millwright.sh
// +kubebuilder:object:generate=true
package v1alpha1
