// Package shadow compares what Millwright in mode shadow decided with what another controller did in the
// same cluster at the same time.
//
// What happened is told by the World alone: nodes with what they cost, pods that waited, pods that were
// evicted. What would have been follows from the recorded shadow decisions, each of which was taken on
// what really was there then. A decision counts from its time on, and no longer than the real nodes exist
// that it is about: a node that Millwright would have removed makes a difference until it is really gone,
// and a NodeClaim that it would have made for some pods stands in place of the nodes that were really
// launched for them. So differences do not pile up: with every node that goes, both clusters are again the
// same there.
//
// Not followed: where pods would have gone next on nodes that never were, and what decisions would have
// followed from that. Pods wait on a node that never was as long as nodes really took to boot.
// Interruptions and failures of such nodes are not known.
//
// Callers: millctl shadow report, and the console. Test with a log and a stream in memory.
package shadow
