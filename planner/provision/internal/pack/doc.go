// Package pack makes the new claims of a plan cheaper, within a budget of steps: it takes claims apart and
// repacks their pods by the same search in another order or with another bound, and keeps what is cheaper. It
// never lets a pod lose a preference that is met, move to a NodePool of lower weight, or break what other
// pods rely on.
//
// Each try is a Trial of the solver, which is committed if it is better and reverted if not; nothing here
// takes changes back itself.
//
// Repack does that among the new claims; Widen lets planned claims, whose NodeClaim is not made yet, replace
// new ones. LowerBound is a price that no plan for the same demand can go below.
package pack
