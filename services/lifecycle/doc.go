// Package lifecycle carries NodeClaims from the plan in the log to the end of their instance, and keeps the
// status of NodePools and EC2NodeClasses.
//
// What to do next with a claim is decided by planner/claim from facts: object, Ledger, Nodes, NodeClass,
// instance. Service only steps: its agenda says which claims are to be looked at, and these do the work, none
// of which knows another:
//
//   - claims gathers the facts, carries out the moves and records the outcomes;
//   - garbage finds what has come apart, and keeps what it found for the facts;
//   - status keeps what people read, off the path of moves;
//   - effects starts whatever is done beside the step, and recent remembers what was written or read a moment ago.
//
// Nothing they keep in memory is needed: a new leader starts from the log, the API server and EC2, and at
// worst asks again what was answered already.
//
// Guarantees: launches are exactly once as DESIGN §5 orders (claims/launch.go); a Node or NodeClaim loses its
// finalizer only after EC2 said that the instance is gone (claims/terminate.go); every object is written with
// its UID and resourceVersion. Not guaranteed: that a fact is fresh. Each move is harmless on stale facts.
//
// Test with the rig of rig_test.go: the in-memory log, and a cluster and an EC2 of maps, on one clock; every
// append and call is numbered, so that a fault can meet each.
package lifecycle
