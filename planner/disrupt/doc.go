// Package disrupt decides which nodes are removed voluntarily: emptiness, drift and consolidation, within the
// NodePools' budgets.
//
// Guarantees: Plan returns at most one command and never takes more nodes than the budgets allow as of its
// Snapshot; a running command's nodes count. Every pod that a command moves has a place, found by the
// provisioning planner, and the command names it. Confirm looks at a Snapshot that contains the taints and
// decides whether the command still holds. Every node that cannot be disrupted is reported with its reason.
// Not guaranteed: that nothing changes afterwards; the decision's Expects and Confirm are for that.
//
// How consolidation searches: internal/packing holds a model of free room and pod sizes in which thousands of
// sets of nodes can be tried; trials.go asks the provisioning planner whether what the model found is true.
// Nothing is decided on the model alone. What policies have against a command is decided by internal/policy.
//
// The rules are those of reference/disruption.md.
package disrupt
