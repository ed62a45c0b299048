// Package solve finds a place for each pod that needs one: earlier verdicts that still hold are kept, then
// the pods are tried in the order of the queue, largest first, at each level of relaxation on every bin and
// then on a new claim of every NodePool (scheduling §7).
//
// A Solver is one plan. To change it for a question, and back, call Begin and then Commit or Revert; pods
// that were placed, claims that were opened and nodes that were removed in between are kept or reverted
// together:
//
//	s.Begin(Unbounded)
//	s.Remove(node)          its pods need a place
//	s.Place(pods, &Mode{})  they get one on other nodes, or on new claims
//	s.Revert()              everything is as it was; that other nodes are full is remembered
//
// Trials nest: one that begins within another is reverted alone, or becomes part of the other. The packer and
// the commitment of claims to a zone try what they try in the same way.
//
// A Mode is how places are tried: whether claims with fewer pods come first, and how far claims may grow.
// Nothing else steers the search.
package solve
