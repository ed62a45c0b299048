// Package claims carries NodeClaims from the plan in the log to the end of their instance.
//
// What to do next with a claim is decided by planner/claim from facts: object, Ledger, Nodes, NodeClass,
// instance. This package gathers the facts (facts.go), decides (step.go), carries out the moves (one effect
// per claim at a time, key claim/<name>) and records the outcomes. Whoever comes to know a fact that changes
// the next move has the claim looked at by Agenda.
package claims
