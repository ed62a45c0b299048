// Package disrupt decides which nodes are taken away voluntarily: now emptiness, within the NodePools'
// budgets; drift and consolidation enter through the same Plan later.
//
// Guarantees: Plan returns at most one command, of one NodePool, and never takes more nodes than the budgets
// allow as of its Snapshot; a running command's nodes count. Confirm looks at a Snapshot that contains the
// taint and decides whether the command still holds. Every node that can't be disrupted is reported with its reason.
// Not guaranteed: that nothing changes afterwards; the decision's Expects and Confirm are for that.
// Callers: services/disruptor, store/audit. The rules are those of reference/disruption.md §1, §2 and §4.
package disrupt
