// Package index keeps the newest records of the log by what they are about, so that a reader finds the story
// of an object without reading the log from its beginning.
//
// Guarantees: it holds records without a gap up to the newest one it has read, each with its subjects; what
// it holds is derived from the log alone and is built anew at every start. It is bounded: the oldest records
// leave first. Not guaranteed: that it reaches back to the first record; First says how far.
package index
