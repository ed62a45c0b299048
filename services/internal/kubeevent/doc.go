// Package kubeevent publishes KubeEvents: de-duplicated, rate-limited, written as core/v1 Events whose
// source is the component karpenter, so that field selectors and dashboards of users keep working.
//
// Guarantees: Publish never blocks; an event with a key that was published within its DedupeFor is dropped;
// an event dropped by the rate limit is not remembered and may be published when it comes again. Events of
// cluster-scoped objects stand in namespace default.
// Not guaranteed: delivery. An event is a courtesy; the log is the record.
package kubeevent
