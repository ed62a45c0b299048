// Package requirement is the algebra of label requirements: what a pod, volume, NodePool, NodeClaim, instance
// type or offering demands of a node's labels, and whether two of them can hold at once.
//
// A Requirement is a possibly infinite set of values for one key; a Set holds one Requirement per key and
// reads a missing key as Exists. Both are values: no method changes its receiver, slices handed out are
// shared and must not be written to. A Set is sorted by key, so nothing here depends on map order.
//
// Rules and texts: reference, scheduling §2.2 and §5, api §1.6 and §2.3.
// No I/O.
package requirement
