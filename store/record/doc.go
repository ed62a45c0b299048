// Package record is the stored form of a Record: envelope, canonical form, hash chain. FORMAT.md specifies
// it.
//
// Guarantees: Marshal and Unmarshal are inverse; Unmarshal never panics, and returns nothing whose hash does
// not match. Two implementations of store.Log that seal the same drafts on the same genesis get the same
// hashes, wherever they keep long payloads. Not guaranteed: that a payload is included. A long one is a blob;
// the reader of the log fetches it. Test with its own fuzz tests.
package record
