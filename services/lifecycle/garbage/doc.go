// Package garbage finds what has come apart: instances without a NodeClaim, NodeClaims without an instance or
// a Node, Nodes whose claim is closed, launch templates and instance profiles nobody uses.
//
// A scan reads instances, NodeClaims and NodePools directly, every half minute, and a poll looks at
// terminating instances. What they say is kept in Findings, from which the facts about a claim are taken;
// instances that belong to nothing are ended here. Each of these has a breaker: so much at once is a fault of
// ours rather than garbage, and calls for a person (Alarms). Breaker does the same for what follows from time
// alone.
//
// Nothing here decides about a claim: that is planner/claim's, from the facts.
package garbage
