// Package world folds Observations into the World: what the cluster and EC2 looked like at one Position.
//
// Guarantees: the fold is total (any sequence of messages is accepted, none panics) and a pure function of
// the decoded messages, so live operation and replay compute the same World, and folding from a checkpoint
// equals folding from the start. Accessors return objects in a fixed order and never copies: a caller changes nothing, and keeps
// only what it had from a version.
// Version gives the World as it is, never to change: versions are read beside each other and beside Apply, any number at a time, and
// share what is equal. Not guaranteed: safety of Apply beside another use of the live World; one goroutine at a time has it (see
// services/internal/host/fold).
// Test with planner/plannertest builders.
package world
