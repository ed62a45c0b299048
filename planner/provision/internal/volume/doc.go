// Package volume says what the volumes of a pod demand of its node: where they are or may be made, and how
// many attachments of which CSI driver they need (reference: scheduling §9).
//
// It looks at nothing but the objects that a Source returns; a World is one. What pods hold is asked of
// Holders. Errors are in the words that users know.
package volume
