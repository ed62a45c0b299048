package place

import (
	"millwright/planner/bitset"
	"millwright/planner/provision/internal/demand"
	"millwright/planner/topology"
	"millwright/planner/world"
)

// Bin is a place with the pods that this plan puts there.
type Bin struct {
	Index int
	Place Place
	Ports []demand.HostPort
	// Added are the pods this plan puts here.
	Added []*world.Pod
	// records are the counts contributed by the pods of a claim being built; gone: it was repacked, or the
	// node was removed.
	records []counted
	Gone    bool
	// savedBy are the innermost changes in progress that have saved it; nil: none have.
	savedBy *Changes
	// uncounted are pods whose domain is not certain yet, by group.
	uncounted map[*topology.Group]int32
}

// Place is where pods can be: a node, a planned claim, or a claim that is being built. It contains only what
// has to differ between them.
type Place interface {
	// accept puts a pod of the level into b, whose place this is, if it fits. keeping: the topology is not
	// checked.
	accept(l *Layout, b *Bin, lv *demand.Level, keeping bool) Outcome
	// domains of a key that the node may end up in.
	domains(d *topology.Domains) bitset.Set
	// mayLack reports that the node may end up without the key.
	mayLack(d *topology.Domains) bool
	// certain are the values of a key that make domains known, if the filter counts the node.
	certain(key string, f *demand.NodeFilter) []string
	// passes reports that the filter counts the node.
	passes(f *demand.NodeFilter) bool
	// Target names it; zero if it has no name yet.
	Target() Target
	// saved is a copy that later pods do not change.
	saved() Place
}

// Target names a place that exists: the node, or the claim if it is not a node yet.
type Target struct{ Node, Claim string }

// Open is the claim that is being built here; nil if this is something else.
func (b *Bin) Open() *OpenClaim {
	o, _ := b.Place.(*OpenClaim)
	return o
}

// Planned is the planned claim here; nil if this is something else, or if it is being widened.
func (b *Bin) Planned() *PlannedClaim {
	p, _ := b.Place.(*PlannedClaim)
	return p
}

// Node is the node here; nil if this is something else.
func (b *Bin) Node() *Node {
	n, _ := b.Place.(*Node)
	return n
}

// StepsWhole is the cost of trying a claim that is not full, in steps of trying a full one.
const StepsWhole = 8

// Outcome of trying a bin.
type Outcome uint8

const (
	// Never: bins only fill up and narrow, so the refusal lasts.
	Never Outcome = iota
	// Full: never, and no other pod with the same requests either.
	Full
	// notNow: the topology may allow it later.
	notNow
	Accepted
)

// Accept puts a pod of the level's class into b if it fits. keeping: it was placed there before, and the
// topology is checked after all such pods are.
func (l *Layout) Accept(b *Bin, lv *demand.Level, keeping bool) Outcome {
	l.Steps++
	if b.Gone {
		return Never
	}
	if !keeping {
		if ok, lasting := lv.PlaceAllows(b.Index); !ok {
			if lasting {
				return Never
			}
			return notNow
		}
	}
	return b.Place.accept(l, b, lv, keeping)
}
