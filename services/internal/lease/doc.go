// Package lease holds the kube Lease that keeps Karpenter and a second Millwright from acting on the same
// cluster.
//
// All processes of one installation hold it together, as millwright/<log-id>: each renews it by itself, and
// lists itself in an annotation. A process that ends removes itself from the list; the last one releases the
// Lease, so that the next holder need not wait until it expires.
//
// Guarantees: while Held reports true, nobody who follows the protocol of client-go's leader election holds
// the Lease under another identity, whatever the clocks say: expiry is counted from the start of the last
// successful renewal here, and from the last change observed there. If the Lease is found in foreign hands,
// it is given up at once. Not guaranteed: that an effect started while Held was true has ended; creating
// effects therefore end by Until.
//
// Test with a fake of Leases (keeper_test.go) inside a synctest bubble.
package lease
