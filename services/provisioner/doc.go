// Package provisioner gathers pods that wait for a node into batches and records what planner/provision
// decides about them: the NodeClaims to make, the nodes pods wait for, and the refusals. Lifecycle makes the
// NodeClaims.
//
// Guarantees: a round is planned at the latest BatchMaxDuration after a pod was first seen, given a valid
// Snapshot; a decision that lost against another is planned again, never patched. A round that changes no
// verdict records nothing. Not guaranteed: that pods of one batch are planned alone; every round considers
// all pods that need a place. What is remembered between steps is only timing: a restart begins a new batch.
// The rules are those of reference/scheduling.md §2 and §11.
package provisioner
