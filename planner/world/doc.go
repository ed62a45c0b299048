// Package world folds Observations into the World: what the cluster and EC2 looked like at one Position.
//
// Guarantees: the fold is total (any sequence of messages is accepted, none panics) and a pure function of
// the decoded messages, so live operation and replay compute the same World, and folding from a checkpoint
// equals folding from the start. Accessors return objects in a fixed order and never copies: a caller may
// keep nothing and change nothing.
// Reads may run beside each other. Not guaranteed: safety of Apply beside anything else; one goroutine owns a
// World (see services/internal/host).
// Callers: services fold and plan, store/audit replays. Test with planner/plannertest builders.
package world
