// Package watcher publishes what is seen in the cluster and in EC2 as Observations.
//
// It decides nothing. One instance is active; each time it starts, and after each failed publish, it begins a new epoch:
// resync begin, every object of every kind, resync end, then changes as they happen and a heartbeat each second.
// Nothing is buffered for a bus that is away: the next epoch says it all again.
//
// Guarantees: epochs rise; counters within an epoch rise by one, in the order of the stream; a heartbeat is
// published only while every kind is being watched, so its time is a bound on what may have been missed.
// Not guaranteed: that each change of an object is published. The last one is.
//
// The package knows neither Kubernetes nor AWS: services/watcher/kube and services/watcher/ec2 are handed to it.
package watcher
