// Command bench prints the figures of Millwright in one table, each with its aim: appends to the log, the
// way of an observation to the World, memory of the World, planning, synthetic weeks (tools/weeks), the
// start of a provisioner, the latency from a pod to CreateFleet, and resident memory.
//
// The first four run the benchmarks that stand beside the code; the others start real processes:
// bin/millwright alone on a log and a stream made for it, and the whole local stack. Each part is bounded in
// time. What is measured is printed as it is: on a machine that does other work, the load average in the
// first line says so.
package main
