// Package workload makes planning problems of known shape and size: catalogues of instance types, NodePools,
// nodes and pods. Benchmarks and tests of the planner use them as they are; tools/bench writes them to files
// for millctl.
//
// Everything is a function of its arguments: the same problem comes out on every machine.
package workload
