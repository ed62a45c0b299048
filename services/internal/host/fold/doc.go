// Package fold keeps the World and the Ledger of a process: State folds the stream into one World and the log
// into one Ledger, for all services of the process, and knows how far operators have stopped them, since when
// log or bus have been silent, how full the log's database is and what the other processes know.
// OutageNotifier reports this to users.
//
// Guarantees: the versions that State returns never change. Not guaranteed: that they are valid for a
// decision; step.Invalid says so.
//
// Locks: World and Ledger have one each, held to fold one message or record and to take a version.
package fold
