// Package drain decides which pods of a node that is being removed are evicted next, which are waited for,
// and which are deleted because the node's deadline is near.
//
// Guarantees: a pure function of the Snapshot; later tiers wait until the earlier ones are gone or stuck; a
// protected pod is never listed for eviction; a pod is listed for deletion only when the deadline demands it.
// Not guaranteed: that evictions are allowed; enforcing PodDisruptionBudgets is up to the API server. Whoever
// terminates the instance lists the node's pods once more. The rules are those of reference/lifecycle.md
// §8.1–8.5.
package drain
