// Package conversion turns objects of karpenter.sh and karpenter.k8s.aws from v1beta1 into v1 and back
// (reference: api §5).
//
// It works on decoded JSON (map[string]any), not on Go types: what it does not have to change keeps its form
// to the letter (90m stays 90m, 1000m stays 1000m), fields it does not know pass through, and an object that
// another version of the schema let in never makes a list unreadable.
//
// Guarantees: the input is never changed; the functions are pure, but for the reading of a NodePool through
// PoolReader; v1beta1 → v1 → v1beta1 gives the same object; v1 → v1beta1 → v1 loses what the Losses of
// Convert name and no more. What v1beta1 can say and v1 cannot (kubelet, apiVersion of the reference, Ubuntu,
// consolidateAfter Never beside WhenUnderutilized) is carried in annotations. Not guaranteed: that the result
// is valid; the API server validates what is written. Test with the generators of fuzz_test.go.
package conversion
