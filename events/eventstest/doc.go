// Package eventstest is the conformance suite of events.Stream, run over membus and natsbus.
//
// Each case gets a Server of its own through the factory given; a Server is what outlives its clients. The
// cases name the promise they check.
package eventstest
