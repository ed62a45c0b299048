// Package history adds up what the log says, as it is read: what happened in each minute, hour and day by
// NodePool, and what commands promised and brought about. So an answer about months costs as much as one
// about minutes, and none reads the log.
//
// It knows only records that it was given, in order; what it has not seen it does not guess. All it holds is
// bounded. It is safe for concurrent use.
package history
