// Package eventstest is the conformance suite of events.Stream, run over membus and natsbus.
//
// Each case gets a Server of its own from the given factory; a Server outlives its clients. The cases are
// named after the promise they check.
package eventstest
