// Package status keeps what people read: status and hash of NodePools, conditions of NodeOverlays, status of
// CapacityBuffers, EC2NodeClasses by their reconciler, and for each NodeClaim whether it has drifted and how
// long its node has been quiet.
//
// It is off the path of moves: nothing here opens, launches or ends a claim, and no claim waits for it. What
// it writes follows from the World, the Ledger and the cache, so that a new leader writes the same.
package status
