// Package membus is an events.Stream in memory, for tests and for the simulation of the whole system.
//
// It has no goroutine of its own and no clock: a published message is stored before Publish returns, unless
// Hold was called. A Bus is the server; each New or Connect gives a client of it. Faults are method calls:
// Hold, Fail, Discard.
package membus
