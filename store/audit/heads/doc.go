// Package heads signs heads of the log, and checks the signatures. A head is the hash of a record, which
// covers all records before it; checkpoints of the Ledger carry signed ones.
//
// Guarantees: who has a public key, and a log that Check accepts, has the records that the signer had, up
// to the newest signed head. Not guaranteed: that records after that head are there, or that this head is
// the newest that was ever signed; docs/threat-model.md says how to find that out. Callers:
// services/internal/retention signs, millctl checks. Test with memlog.
package heads
