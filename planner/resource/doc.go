// Package resource does arithmetic on resource vectors: milli-CPU, bytes and counts as int64.
//
// Guarantees: no floats, no maps with observable order; a Vector is a value and its methods never change
// their receiver. Quantities are converted once, at the edge (From).
package resource
