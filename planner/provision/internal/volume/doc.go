// Package volume says what the volumes of a pod demand of its node: where they are or may be made, and how
// many attachments of which CSI driver they take (reference: scheduling §9).
//
// It looks at nothing but the objects that a Source returns; a World is one. An error is in the words users
// know.
package volume
