// Package place holds the places of one plan: nodes, planned claims and claims that are being built, which
// take pods through one interface (Place), and what the pods there count for topology and use of limits and
// of reserved capacity.
//
// A Bin is a place with the pods that the plan puts there. Accept asks a place for room and takes it at once:
// to find out without taking, begin to record changes (Layout.Begin) and revert them. The three kinds differ
// in what is certain about them:
//
//	node            its labels are known: a pod fits or does not
//	planned claim   its spec is known: a pod must fit whatever instance type it becomes
//	open claim      nothing but what its pods demand is known: each pod narrows what it may become
//
// Package place answers for one pod at a time. Package solve decides which pod is tried when, and what is
// remembered of the answers.
package place
