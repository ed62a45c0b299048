// Package trust is how people with a kubeconfig come to trust the console: it says in a ConfigMap beside its
// Service by which certificates it is known, and for which name. Who may write that ConfigMap may pretend to
// be the console, to those whom the API server then leads to their pod; the console writes it and nobody else
// needs to.
//
// It is called by the console, which writes, and by millctl, which reads.
package trust
