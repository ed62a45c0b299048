// Package apitest holds the conformance tables of the API: what a kube-apiserver with the CRDs of deploy/crds
// accepts, refuses (with which message) and defaults. It has no code of its own; all tables run against one
// control plane.
package apitest
