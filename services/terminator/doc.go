// Package terminator empties nodes that are being removed: it taints them, evicts their pods tier by tier,
// waits for their volumes, and records when an instance may be terminated. Lifecycle terminates it.
//
// Guarantees: no pod is evicted against a PodDisruptionBudget (the Eviction API decides) or its
// do-not-disrupt annotation, except as the node's deadline demands. NodeDrained is recorded only after the
// API server itself has listed the node's pods and none of them has to be waited for. Not guaranteed: that a
// drain without a deadline ends; a budget or a protected pod can hold it up forever, and the KubeEvents say
// so. How: every step looks at all nodes that are being removed, compares them with the Ledger's drains and
// the World's pods, and starts what is due. Nothing is remembered but when to try an eviction again. If there
// is no valid World (bus down), pods are listed from the API server instead. The rules are those of
// reference/lifecycle.md §8; planner/drain holds the pure part.
package terminator
