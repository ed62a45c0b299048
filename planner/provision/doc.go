// Package provision decides which NodeClaims to make for which pods, which pods wait for which node, and
// which pods cannot be placed and why (reference: scheduling §2–§10).
//
// Guarantees: Plan is a pure function of the Snapshot; the order of objects in it does not matter. Every pod
// that waits for a place gets a verdict in every round: a node, a claim, or refusals with reasons. A verdict
// that still holds is kept, so a round in which nothing changed decides nothing. Limits, planned capacity
// included, are never exceeded.
//
// This package is the interface to the others: it reads the Snapshot, and makes records and explanations of a
// plan. The plan itself is made by internal packages, of which each knows only those below it:
//
//	pack      makes new claims cheaper           refusal   says why pods have no place
//	solve     the queue, the search, trials
//	place     nodes, planned claims and claims being built; topology counts; reserved capacity
//	offer     NodePools: types, prices, limits   demand    pods: classes, levels, constraints
//	overlay   NodeOverlays on catalogues         volume    what volumes demand
//
// Where is a pod packed? solve.Solver.Place tries it on each place.Bin, else on a new claim of each
// offer.Template; pack.Repack then moves it to cheaper claims. A node that refused a class is not asked again
// unless the reason may pass (topology).
//
// What if some nodes were removed? A Simulation answers that for many sets of nodes of one Snapshot, each as
// a trial of the same solver that is committed or reverted, so that a question costs only what it changes.
//
// Test with planner/plannertest.
package provision
