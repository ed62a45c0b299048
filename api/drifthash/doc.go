// Package drifthash computes the hashes by which NodeClaims are compared with the NodePool and the
// EC2NodeClass they were made from. They stand in annotations, each beside the version of its algorithm:
//
//   - NodePool v3: the template but its requirements (all of Karpenter 1.x)
//   - EC2NodeClass v4: the spec but its selectors, and the resolved AMI family (Karpenter 1.1 to 1.11)
//   - EC2NodeClass v5: v4 and the cluster's CA bundle (Karpenter 1.12 to 1.14)
//   - mw1 of both: what Millwright stamped at first; only read, never written
//
// v3 to v5 are structural hashes of Go values: the names of struct types and fields enter the result, so the
// types here are named as they are for that reason alone. The values are those that Karpenter computes,
// number by number (testdata/vectors.json; reference: api §9).
//
// All functions are pure and safe for concurrent use.
package drifthash
