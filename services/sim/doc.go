// Package sim runs the whole system on a virtual clock in one process: the unchanged step functions of
// provisioner, disruptor, terminator and lifecycle, and the watcher's messages, with a cluster and a cloud in
// memory (packages cluster and cloud), under faults that one seed determines (stage.Faults).
//
// Everything happens as an event of one clock. A step or an effect is a coroutine: it runs alone, and at
// every call of the API server, EC2 or the log it is parked until the answer comes, while the others go on.
// So any interleaving can happen, a process can die in the middle of anything, and one seed always gives the
// same history.
//
// Sim, its processes and the watcher are here. Package stage is what everything shares, users generates
// events from outside, judge makes the checks. It derives what is correct from what was published and
// recorded, and from the objects of the cluster; tools/simrun breaks one rule of the planners after another
// and requires the judge to find it.
//
// What must hold is a list of named checks (judge.Checks) over the history, most of them made when something
// happens; then the faults stop and the system has to converge. At the end the log is verified and every
// decision replayed. The first check that fails ends the run with its name.
//
// Guarantees: equal seeds, equal histories, for the same code. Not simulated: see stage.Faults and package
// cluster for what exists; the real bus, log and adapters have tests of their own.
package sim
