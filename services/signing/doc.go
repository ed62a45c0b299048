// Package signing has heads of the log signed by an Ed25519 key in AWS KMS: it implements heads.KeyService.
//
// Guarantees: making one calls nobody; the public key is asked for once; calls end with their context.
// Caller: cmd/millwright.
package signing
