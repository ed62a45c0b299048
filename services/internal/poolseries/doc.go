// Package poolseries keeps what a process measures from growing with every NodePool there ever was: series
// with the label nodepool are deleted once their NodePool has been gone for an hour, which leaves Prometheus
// time to read what was counted last. A NodePool that comes back under its name before goes on counting.
//
// Guarantees: no series of a NodePool that is there is deleted, nor of any while the World is not whole. Not
// guaranteed: that a counter never begins at 0 again; rates of Prometheus expect that of every restart.
//
// Test with a Registry and a function for the World's NodePools, as registerer_test.go does.
package poolseries
