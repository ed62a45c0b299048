// Package console shows people what Millwright sees, decides and does, and takes their orders: a JSON API,
// and pages for browsers, over HTTPS.
//
// Guarantees: it decides nothing, and what it reads makes no service wait, because it reads immutable
// versions; whatever fails in it ends neither the process nor anything else there; nobody gets in without a
// token of the cluster and the right to what they ask for; it listens with TLS alone. Not guaranteed: that it
// answers. Everything it tells can be had by millctl from the log as well.
package console
