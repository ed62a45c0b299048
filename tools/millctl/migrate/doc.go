// Package migrate finds what in a live cluster must be cleaned before v1beta1 is dropped (reference: api §5,
// "Before 1.1").
//
// Guarantees: it only reads, page by page; Inspect is a pure function of what was read. Findings are sorted.
// Not guaranteed: that nothing changes after it has looked.
package migrate
