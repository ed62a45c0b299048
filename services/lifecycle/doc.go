// Package lifecycle carries NodeClaims from the plan in the log to the end of their instance, and keeps the status
// of NodePools and EC2NodeClasses.
//
// What to do next with a claim is decided by planner/claim from facts: object, Ledger, Nodes, NodeClass, instance. This
// package gathers the facts (facts.go), carries out the moves (one effect per claim at a time, key claim/<name>) and
// records the outcomes. Nothing it keeps in memory is needed: a new leader starts from the log, the API server
// and EC2, and at worst asks again what was answered already.
//
// What has come apart is found by garbage, which keeps what it found for the facts; what people read, off the path of moves, is kept by
// status; effects starts whatever is done beside the step.
//
// Guarantees: launches are exactly once as DESIGN §5 orders (launch.go); a Node or NodeClaim loses its finalizer only
// after EC2 said that the instance is gone (terminate.go); every object is written with its UID and
// resourceVersion. Not guaranteed: that a fact is fresh. Each move is harmless on stale facts.
//
// Test with the rig of rig_test.go: the in-memory log, and a cluster and an EC2 of maps, on one clock; every append and call is
// numbered, so that a fault can meet each.
package lifecycle
