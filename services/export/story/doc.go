// Package story makes spans of records: one trace for each node that was bought, from the pods that waited
// for it to the pods that run on it, and one for each node or command that ended, from the decision to the
// terminated instance, and one for each pod that decisions named, from then until it was bound or deleted.
// The claims that a command buys are told in its trace.
//
// Guarantees: spans, their ids and their times follow from the records alone, so that they are the same
// each time they are made; memory is bounded. Not guaranteed: that a story has an end. One that is not
// over after storyMax, or when too many are open, is ended as unfinished. Callers: services/export. It
// does no I/O.
package story
