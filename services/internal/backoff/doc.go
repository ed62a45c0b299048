// Package backoff remembers, for each of many keys, when an effect may be tried again.
//
// A key is due until something holds it back: a failure (longer with each in a row), a conflict (likewise,
// and spread by jitter, so that those who lost together do not retry together), or a caller who knows when
// trying again makes sense. Jitter is a hash of key and count: nothing here reads a clock or draws random
// numbers. Keys that nobody has held back for a while are forgotten, so memory is bounded by what fails
// within forgetAfter.
package backoff
