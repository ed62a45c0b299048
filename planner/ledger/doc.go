// Package ledger folds Records into the Ledger: what Millwright decided, did and knows of its own acts.
//
// Guarantees: the fold is a pure function of the decoded records; records of mode shadow change nothing but
// the shadow book-keeping; kinds and their numbers are never reused. Version gives the Ledger as it is, never to
// change: versions are read beside each other and beside Apply. The meaning of each kind is the doc comment
// of its payload type.
package ledger
