// Package offer says what NodePools offer: their templates, which instance types claims of them can be, what
// those cost, and what the limits still allow.
//
// A State is what claims of one template with equal requirements have in common. Accepting a pod moves a
// claim from one state to a narrower one, and all claims share the states, so that the thousandth pod of a
// class costs one pointer lookup:
//
//	root                   all types of the NodePool
//	root.Narrow(arm)       those of the root that are arm64; computed when the first pod asks for it
//	...Narrow(zone a)      those that are offered in zone a
//	...Narrow(arm) again   the same state: what is demanded already narrows nothing
//
// States and templates belong to one plan. What they say about types is exact; the limits are counted by the
// code that makes claims.
package offer
