// Package ledger folds Records into the Ledger: what Millwright decided, did, and knows about its own acts.
//
// Guarantees: the fold is a pure function of the decoded records; records of mode shadow change nothing but
// the shadow bookkeeping; kinds and their numbers are never reused. Version returns an immutable Ledger:
// versions may be read concurrently with each other and with Apply. The meaning of each kind is the doc
// comment of its payload type.
package ledger
