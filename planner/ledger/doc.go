// Package ledger folds Records into the Ledger: what Millwright decided, did and knows of its own acts.
//
// Guarantees: the fold is a pure function of the decoded records; records of mode shadow change nothing but
// the shadow book-keeping; kinds and their numbers are never reused. Callers: services and store/audit.
// The meaning of each kind is the doc comment of its payload type.
package ledger
