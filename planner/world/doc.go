// Package world folds Observations into the World: what the cluster and EC2 looked like at one Position.
//
// Guarantees: the fold is total (any sequence of messages is accepted, none panics) and a pure function of
// the decoded messages, so live operation and replay compute the same World, and folding from a checkpoint
// equals folding from the start. Accessors return objects in a fixed order and never copies: a caller must
// not change them, and may keep only those it got from a version. Version returns an immutable World: any
// number of versions may be read concurrently with each other and with Apply, and they share what is equal.
// Not guaranteed: that the live World may be used concurrently with Apply; one goroutine at a time has it
// (see services/internal/host/fold). Test with planner/plannertest builders.
package world
