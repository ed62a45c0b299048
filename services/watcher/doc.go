// Package watcher publishes what is observed in the cluster and in EC2 as Observations.
//
// It decides nothing. One instance is active; each time it starts, and after each failed publish, it begins a
// new epoch: resync begin, every object of every kind, resync end, then changes as they happen and a
// heartbeat each second. Nothing is buffered while the bus is unreachable: the next epoch publishes
// everything again.
//
// Guarantees: epochs increase; counters within an epoch increase by one, in the order of the stream; a
// heartbeat is published only while every kind is being watched, so its time is a bound on what may have been
// missed. Not guaranteed: that each change of an object is published. The last one is.
//
// The package knows neither Kubernetes nor AWS: services/watcher/kube and services/watcher/ec2 are passed to
// it.
package watcher
