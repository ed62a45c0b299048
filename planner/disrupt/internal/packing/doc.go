// Package packing looks for the nodes that a cluster can do without, in a model of free room and sizes of
// pods.
//
// Guarantees: the order in which nodes are added is irrelevant, the steps of a search are bounded, and at
// each moment every pod of a node that is gone has a place on one that stays, which has room for it. Not
// guaranteed: that the pods may run there, by topology, volumes and ports, and that the bill is the
// smallest.
package packing
