// Package bucket keeps the archive of the log in an S3 bucket: it implements archive.Files with the AWS SDK.
//
// Guarantees: an object is written once (If-None-Match), with its SHA-256, and is never overwritten,
// whoever else writes; a PUT whose answer was lost is repeated, and what it left is what the next one
// finds. Open makes no call, every call has a deadline. Needed of the store: reading what was written, and
// conditional writes; a store that ignores the condition is found out by the first of them, and refused. A
// list may lag: the archive then refuses to go on, and goes on later. Not guaranteed: that nobody with
// rights on the bucket deletes objects; Object Lock and a lifecycle rule are for that
// (docs/operations.md). Callers: cmd/millwright, millctl. Test with buckettest.
package bucket
