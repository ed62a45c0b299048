// Package manifests holds what the chart millwright renders to with the values of values-*.yaml, for who
// installs without Helm, and for tests, which run with the ServiceAccounts and roles that users get.
package manifests

import _ "embed"

// Embedded is of mode embedded: one process, account millwright.
//
//go:embed embedded.yaml
var Embedded []byte

// Distributed is of mode distributed: the five services, with an account each.
//
//go:embed distributed.yaml
var Distributed []byte

// Namespace they are rendered for.
const Namespace = "kube-system"
