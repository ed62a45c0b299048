// Package planner is the pure decision core. Everything under it is a function of a Snapshot: no clock,
// randomness, I/O, goroutine, logger or metric, and no result that depends on map order or floats.
//
// This package holds what all planners share: the Snapshot, its joined view of nodes (StateNode), the
// Options, the Decision, and Version. Deciding itself is in the sub-packages.
package planner

// Version of the planners' behaviour. It stands in every decision record; any change of behaviour raises it.
const Version uint32 = 20
