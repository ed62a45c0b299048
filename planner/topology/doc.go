// Package topology counts pods per domain (zone, hostname, any label) for topology spread and for pod
// affinity and anti-affinity, and says which domains a pod may use next (reference: scheduling §8).
//
// A Group counts, per domain of one key, the pods that a selector matches in some namespaces. Constraints
// that count the same pods share a Group; what they demand of the counts (skew, minimum of domains, their own
// view of which domains exist) is theirs alone. The domain of the hostname is a place of the solver, by
// number; all other domains are numbered per key when a Space is set up.
//
// Guarantees: results depend on the order of calls only through the counts; ties go to the name. Not
// guaranteed: that a Space can be used for more than one plan; it is built for one and then dropped.
package topology
