// Package memlog is the event log in memory: for tests, and for the simulator on its virtual clock.
//
// Guarantees: the same answers as etcdlog, hashes included (package storetest proves it). It starts no
// goroutine and uses no clock but Config.Clock, so that a single-threaded caller is deterministic. Not
// guaranteed: anything beyond the life of the process.
package memlog
