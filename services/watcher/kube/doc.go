// Package kube is the half of the watcher that watches the API server.
//
// Each kind has a client-go reflector over a store that keeps, per object, its UID, resourceVersion and a
// digest of what was published: no second copy of the cluster. What reaches the stream is trimmed to what
// planners read (Trim); trimming copies named fields, so a field added to Kubernetes later stays out until it
// is named here.
//
// Guarantees: env, args, commands, image pull secrets and annotations of others never leave this package;
// neither do managed fields. Tests: trim_test.go fills every field by reflection.
package kube
