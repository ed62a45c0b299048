// Package parts is the format of checkpoints: a magic text, then protobuf messages, the parts, each preceded
// by its length as a varint, then a 0, the number of parts as a varint, and the 64-bit xxHash of all bytes
// before it, big endian.
//
// Writer and Reader hold one part at a time. A Reader returns io.EOF only after a complete checkpoint: one
// that ends early, continues after its end, or was changed anywhere is an error. It is used by planner/world
// and planner/ledger.
package parts
