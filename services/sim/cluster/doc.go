// Package cluster is a Kubernetes cluster in memory on virtual time: the API server's objects and rules, and
// simplified forms of kube-scheduler, kubelet and the controllers that Millwright works with.
//
// Guarantees: stored objects are never changed, only replaced; resourceVersions rise with every write; writes
// honour UID and resourceVersion preconditions, finalizers and deletionTimestamps; evictions honour
// PodDisruptionBudgets; times have whole seconds, as on the wire. A caller sees the present through the
// methods of Cluster, and a past it chooses through a View. Not guaranteed: anything of the API that no
// service of ours uses. Controllers act with delays of their own, drawn from the random source. Errors are
// those of the API server, so that kube.Classify sorts them. It runs on one goroutine.
package cluster
