// Package past knows the whole log, archived records included, by what they are about, and adds up its
// whole history, for answers that the newest records in memory do not have.
//
// Guarantees: both are derived from the log, in files of one directory that may be lost or deleted at any
// time, and are made again from the first record on, at half of a core; what is in memory is bounded. Each
// record is read once for them, also over restarts. Not guaranteed: that they reach the log's end while
// they are being made; Covers says how far they are. Console calls it. Test with a log in memory and a
// temporary directory.
package past
