// Package disruptor removes nodes voluntarily: it starts commands, taints their nodes, confirms or rolls back
// on a Snapshot that shows the taint, and deletes the NodeClaims. The terminator drains what it deleted.
//
// Guarantees: nothing is deleted before CommandConfirmed is recorded, nothing tainted before CommandStarted
// is. A command is driven from the Ledger, so the next leader continues where this one stopped. A disrupted
// taint that no command, deletion or drain accounts for is removed. Not guaranteed: that a command ends soon;
// it waits for fresh Snapshots, and is rolled back after its timeout. How: planner/disrupt decides; this
// package acts. The rules are those of reference/disruption.md §4, §6 and §9.
package disruptor
