// Package convert turns manifests of karpenter.sh, karpenter.k8s.aws and the early compute.k8s.aws into
// v1beta1 or v1 (reference: api §5, §6).
//
// Guarantees: documents of other kinds pass byte for byte (with Workloads: except for renamed names); in
// those converted, order, comments and style of what is unchanged stay. What could not be expressed is a Note
// that names object and field. On an error nothing is returned. Not guaranteed: that the result is valid, or
// complete where a Note says otherwise. Test with the manifests in testdata.
package convert
