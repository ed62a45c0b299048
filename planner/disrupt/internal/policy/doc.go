// Package policy holds the rules by which commands are judged: those of DisruptionPolicies, the score of
// Balanced NodePools, and what it must save to move pods again.
//
// Guarantees: a policy that can't be read blocks what it selects. What is judged follows from the arguments
// alone; nothing is searched for or simulated here.
//
// The rules are those of reference/disruption.md.
package policy
