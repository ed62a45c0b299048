// Package store is the event log: Records in one total order, hash-chained, appended only by the writer that
// holds its service's lease and only if every aggregate it names is at the sequence it expects.
//
// It knows bytes and sequences, and nothing about planners. FORMAT.md specifies what is stored.
// Implementations: etcdlog (production), memlog (tests and simulation); storetest runs one conformance suite
// on both.
//
// Guarantees: an acknowledged record is never lost, changed or reordered. An Append that returns an error
// other than ErrConflict, ErrFenced or ErrTooLarge may have been stored (unknown outcome): read before
// deciding.
package store
