// Package drain decides which pods of a node that is going are evicted next, which are waited for, and which
// are deleted because the node's deadline comes.
//
// Guarantees: a pure function of the Snapshot; later tiers wait until the earlier ones are gone or stuck; a
// protected pod is never listed for eviction; a pod is listed for deletion only as the deadline demands it.
// Not guaranteed: that evictions are allowed: PodDisruptionBudgets are the API server's to enforce. Whoever
// terminates the instance lists the node's pods once more. The rules are those of reference/lifecycle.md
// §8.1–8.5.
package drain
