// Package fold keeps the World and the Ledger of a process: State folds the stream into one World and the log into one Ledger, for all
// services of the process, and knows how far operators have stopped them, since when log or bus are silent, how full the log's
// database is and what the other processes know. OutageNotifier tells people of it.
//
// Guarantees: what State hands out never changes. Not guaranteed: that it is valid for a decision; step.Invalid says so.
//
// Locks: World and Ledger have one each, held to fold one message or record and to take a version.
package fold
