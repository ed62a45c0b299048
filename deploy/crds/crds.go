// Package crds holds the CustomResourceDefinitions as they are installed.
package crds

import "embed"

// Files are the manifests, one CRD each.
//
//go:embed *.yaml
var Files embed.FS

// Shared are the manifests of CRDs that others serve too. They are created where there are none, and never
// changed or taken over.
//
//go:embed shared/*.yaml
var Shared embed.FS

// WithV1beta1 are the manifests of the same CRDs with v1beta1 served beside v1, converted by `millwright
// webhook`.
//
//go:embed with-v1beta1/*.yaml
var WithV1beta1 embed.FS
