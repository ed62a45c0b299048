// Package burst launches 1,000 nodes at once: the lifecycle service on a log in a real etcd, its own
// gathering and lanes, real clients of AWS with their budgets, and an account that enforces the limits EC2
// publishes. Only the API server is one in memory, and kubelets do no more than register.
//
// It has tests only. Each prints what the burst cost: calls by kind, refusals, records, and the time it
// took.
package burst
