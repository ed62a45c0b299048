// Package ec2 is the half of the watcher that polls AWS: instance types and their offerings, prices, and the
// instances that are ours. It computes from them the Catalog of each EC2NodeClass (reference ec2 §1 and §2).
//
// Guarantees: only changes are emitted, catalogues by content; numbers are computed in integers or exact
// fractions, never in floats. What could not be learnt is not invented: a failed poll leaves what was known,
// except that on-demand prices start from a built-in table while the price API cannot be reached. Not
// guaranteed: that an offering has capacity, or that an instance just launched is visible (EC2's describe
// calls lag). Test with the simulated account.
package ec2
