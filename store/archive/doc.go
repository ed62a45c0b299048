// Package archive keeps the records that left the live log: hash-linked, compressed segments. FORMAT.md
// specifies them. Files is where they are kept: a Directory, or a bucket (services/bucket).
//
// Guarantees: a segment appears completely or not at all, is never changed afterwards, and was read back and
// verified before the records in it leave the live log. Archive can be interrupted at any point, also by a
// crash; the next call continues where it stopped. Join reads archive and live log as one. Not guaranteed:
// that directory or bucket survives. Backing it up is the owner's task; if it is lost, the records in it are
// gone. It works on any Live log; test with memlog and a temporary directory.
package archive
