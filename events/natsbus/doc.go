// Package natsbus keeps the observation stream in NATS JetStream: one file-backed, compressed stream per
// incarnation, bounded by age and bytes, and one object store bucket for blobs.
//
// Guarantees: what a Flush without error covers is stored, in the order of Publish. A consumer sees each
// sequence once, in order, or learns that it cannot (ErrCompacted, ErrRenewed); connections are
// re-established automatically. Nothing is buffered while disconnected: a publish then fails at once. Not
// guaranteed: that a message whose publish was reported as failed is absent.
//
// Incarnations: a stream is named MILLWRIGHT_<cluster>_<log-id>_<n>. The highest n that exists is in force,
// unless its last sequence is below one that was already seen: by this client, or according to
// Config.MinSequence. Then n+1 is created and everybody who consumes n is redirected to it (ErrRenewed).
// A client whose server lost messages that it had read, and was written on past them before it reconnected,
// gets ErrRenewed for the same incarnation; messages that it has received and not read by then hide that. The
// incarnation before the one in force is kept, for replay; those before are deleted.
//
// Only this package imports the NATS client. Package embedded runs a server in the process. The conformance
// suite is in package eventstest.
package natsbus
