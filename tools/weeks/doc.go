// Package weeks plays synthetic weeks of a cluster on a virtual clock, the same week under several planes:
// Millwright's own planners, and the consolidation that docs/reference/disruption.md describes as Karpenter's
// (Reference). What it prints is the bill, evictions, and how many moves were undone.
//
// Everybody gets the same workload from one seed (Script): services that follow day and night, cron jobs,
// roll-outs, prices of spot capacity that move, spot instances that are taken back, nodes that fail, and
// nodes that expire. A cluster binds pods as kube-scheduler does by default as far as room goes: where most
// is left by its LeastAllocated score. Machines take 40 to 70 s to join; what is launched is the cheapest
// that the plane allows; a node that goes is drained at once and costs until 20 s later.
//
// Left out: zones as a constraint, PodDisruptionBudgets, volumes, affinity, DaemonSets (their requests are in
// each type's overhead), drift, shortages. No plane is told anything that it would not see.
//
// Guarantees: equal seeds give equal weeks, whatever the plane; equal weeks and planes give equal results.
package weeks
