// Package events defines Observations: facts observed in the cluster and in EC2, in the one order the bus
// gives them.
//
// Guarantees: Encode and Decode are inverse for every kind; Decode never panics and names what it refused. A
// consumer of a Stream sees messages in sequence order, each at least once. Not guaranteed: that nothing is
// lost, duplicated or late. The fold (planner/world) accepts all of that. Test with package eventstest, which
// runs one conformance suite over membus and natsbus.
package events
