// Package subjects finds the records about an object in a log of millions, most of which may be archived.
//
// It is an index in files of its own: one for every ChunkSize records, written once and never changed,
// since records are not. The newest records, fewer than ChunkSize, are in no file but in memory. Nothing
// is in it that is not in the log: a file that is missing, damaged, of another log or another version is
// made anew from the records, and whoever finds a record through it checks that the record is about the
// object. So it is never a second truth, and may be deleted at any time.
//
// A file names subjects by a hash of 64 bits: it holds no names. An object's story is put together as
// audit.WhyOf does from the whole log. Test with a log in memory and a temporary directory.
package subjects
