// Package archive keeps the records that left the live log: hash-linked, compressed segments in a directory. FORMAT.md
// specifies the files.
//
// Guarantees: a segment appears as a whole or not at all, is never changed afterwards, and was read back and verified before
// the records in it leave the live log. Archive can be broken off at any line, by the end of the process too; the next one
// goes on where it stopped. Join reads archive and live log as one.
// Not guaranteed: that the directory survives. It is the owner's to back up; without it the records in it are gone, and
// only then.
// It works on any Live log; test with memlog and a temporary directory.
package archive
