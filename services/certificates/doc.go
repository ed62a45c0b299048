// Package certificates keeps the secrets of the etcd and NATS that the chart brings: a CA, a certificate for
// the servers of each, one for each service, and the passwords of NATS's two users, each in a Secret of its
// own. It renews certificates when a third of their life is left, and the CA with an overlap of a day; it
// makes etcd's users, which are the services by the common names of their certificates, and has etcd demand
// one.
//
// Servers and services read renewed certificates by themselves. What does not, a changed CA and NATS's
// certificate, is announced by an annotation on the pod template, so that Kubernetes restarts those pods one
// by one.
//
// Everything is level-triggered: each pass compares what is with what is to be, and can be repeated or broken
// off at any point. Two replicas at once do no harm: writes compare the version that was read.
package certificates
