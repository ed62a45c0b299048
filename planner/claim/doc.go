// Package claim is the state machine of a NodeClaim, as a pure function: facts about the object, the Ledger's
// claim, its Nodes and its instance in, the next move out.
//
// Guarantees: Next returns a move of the table in move.go or Wait, never anything else; equal Inputs give
// equal Actions; an Input survives JSON, so that a ClaimDoomed record replays from its own bytes (Replay).
// States are derived from the facts each time and stored nowhere: any state of the world is a legal start.
// Not guaranteed: that a move succeeds. Whoever carries it out looks again and finds the next one.
//
// Beside the table: the conditions of a NodeClaim (status.go, conditions.go), what registration writes on a
// Node (registration.go) and what initialization waits for (initialization.go).
//
// Rules from reference lifecycle §2-§9, api §3.
package claim
