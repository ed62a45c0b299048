// Package drift says why a NodeClaim is not what would be made now (reference: disruption §7): facts about
// claims, NodePools and EC2NodeClasses in, a verdict on each claim out.
//
// facts.go reads the facts off the objects, the catalogue and what EC2 says; judge.go compares them, in the
// order in which the first hit wins; record.go makes the record that states the verdicts.
//
// Guarantees: Judge is pure, and looks at nothing but its Input; the verdict on a claim does not depend on
// which other claims, pools, classes and types are in it (Input.Of); an Input survives JSON, so that a
// DriftJudged record replays from its own bytes (Replay). Not guaranteed: that the facts are new. Whoever
// gathers them judges again when they change.
package drift
