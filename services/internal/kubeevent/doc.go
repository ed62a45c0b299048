// Package kubeevent publishes KubeEvents: de-duplicated, rate-limited, written as core/v1 Events whose source
// is the component karpenter, so that users' field selectors and dashboards keep working.
//
// Guarantees: Publish never blocks; an event with a key that was published within its DedupeFor is dropped;
// an event dropped by the rate limit is not remembered and may be published when it occurs again. Events of
// cluster-scoped objects are created in namespace default. Not guaranteed: delivery. An event is a courtesy;
// the log is the record.
package kubeevent
