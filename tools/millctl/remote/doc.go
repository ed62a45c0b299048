// Package remote is the console as millctl reaches it from a kubeconfig alone: it finds the console's
// Service, reads by which certificate the console is known, goes to one of its pods through the API server as
// kubectl port-forward does, and asks its API with a bearer token: the user's own, or a short-lived one of
// the operator's ServiceAccount that is good for the console alone.
//
// Nothing is sent before the console's certificate is verified, and no port is opened on this machine. Every
// call has a deadline. Errors are Refused if the console answered, ErrUnreachable if it could not be asked.
package remote
