// Package provision decides which NodeClaims to make for which pods, which pods wait for which node, and
// which pods cannot be placed and why (reference: scheduling §2–§10).
//
// Guarantees: Plan is a pure function of the Snapshot; the order of objects in it does not matter. Every pod
// that waits for a place gets a verdict in every round: a node, a claim, or refusals with reasons. A verdict
// that still holds is kept, so a round in which nothing changed decides nothing. Limits, planned capacity
// included, are never exceeded.
//
// How it works: pods are grouped by class, and each class is compiled once into label requirements, taints
// and ports. Instance types are bit sets (planner/catalog). The requirements of a growing claim are a state
// in a lattice that all claims of a NodePool share, so that adding the thousandth pod of a class costs a
// pointer lookup and a few word operations. A node that refused a class is not asked again unless the reason
// may pass (topology).
//
// What if some nodes went? A Simulation answers that for many sets of nodes of one Snapshot, each as a trial of the same solver that
// is committed or taken back, so that a question costs what it changes.
//
// Test with planner/plannertest.
package provision
