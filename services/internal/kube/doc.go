// Package kube is the adapter to the Kubernetes API: typed calls that carry UID and resourceVersion
// preconditions, and one classification of the errors they return.
//
// Guarantees: no call retries by itself; every write to an existing object can be bound to its UID, so that
// it never hits another object of the same name. Core types travel as protobuf, the custom resources as JSON.
package kube
