package place

import (
	"cmp"
	"iter"
	"slices"
	"time"

	"millwright/planner"
	"millwright/planner/bitset"
	"millwright/planner/catalog"
	"millwright/planner/ledger"
	"millwright/planner/provision/internal/demand"
	"millwright/planner/provision/internal/offer"
	"millwright/planner/provision/internal/volume"
	"millwright/planner/topology"
	"millwright/planner/world"
)

// Input is what exists: the places of a plan are made from it. The order of its lists does not matter.
type Input struct {
	offer.Input
	Nodes   []*planner.StateNode
	Planned []PlannedInput
	// Leaving nodes take no pods, but those that stay there until the node is gone count.
	Leaving []Leaving
	// Simulated: nodes may be removed in trials.
	Simulated bool
	// Stays reports that a pod still counts on a node that is removed in a trial; nil: none does.
	Stays func(p *world.Pod) bool
	// Last nodes come after others that are as ready; nil: none.
	Last func(n *planner.StateNode) bool
	// FreeReserved is how much of a capacity reservation is free, given what EC2 said in a catalogue and
	// when.
	FreeReserved func(id string, free int64, at time.Time) int64
	// Classes of all pods, for the anti-affinity of those that run.
	Classes []*world.PodClass
	Volumes volume.Holders
}

// PlannedInput is a claim of the Ledger that is not a node yet.
type PlannedInput struct {
	Claim   *ledger.Claim
	Catalog *catalog.Catalog
	// Pods that are to go there and still need a place.
	Pods []*world.Pod
	// Uncreated: the claim is for pods, and its NodeClaim is not made yet as far as the Snapshot shows: it
	// may be widened or withdrawn.
	Uncreated bool
}

// Leaving is a node that is going, with the pods that stay on it until then.
type Leaving struct {
	Node *planner.StateNode
	Pods []*world.Pod
}

// Layout is every place of one plan, with what the pods there count for topology and what claims use of
// limits and reservations.
type Layout struct {
	in        *Input
	Templates []*offer.Template
	Compiler  *demand.Compiler
	// Bins: nodes, initialized ones first, then planned claims, then claims in the order they were opened.
	// The first Fixed ones are not new claims.
	Bins     []*Bin
	Fixed    int
	ByTarget map[Target]*Bin
	// leaving are the nodes of Input.Leaving, in that order; they are not among the Bins.
	leaving []*Bin
	// Reserved is nil if there is no reserved capacity.
	Reserved *Reservations
	// probes is nil if no offering is unproven.
	probes *probes
	// waves is nil if they are not bounded.
	waves *waves
	// Steps counts how often a bin or a template was tried: 1 if a bin was full, StepsWhole otherwise.
	Steps int
	// Changes are what can be reverted; nil if nothing can.
	Changes *Changes
	// running are the classes of pods on nodes; single the alternatives for one domain.
	running runningClasses
	single  map[*topology.Domains][]*demand.Alternative
	// exist are the domains that exist for classes; existKeys are its keys as they came.
	exist     map[existKey]*existing
	existKeys []existKey
	// buffer and holding are temporary sets of types.
	buffer, holding bitset.Set
	// spareBins, spareOpens and spareChanges are left over from tries; their memory is reused.
	spareBins    []*Bin
	spareOpens   []*OpenClaim
	spareChanges *Changes
}

func New(in *Input, templates []*offer.Template, c *demand.Compiler) *Layout {
	l := &Layout{in: in, Templates: templates, Compiler: c, Reserved: newReservations(templates, in), probes: newProbes(templates, in), waves: newWaves(templates, in)}
	l.addFixed()
	return l
}

// addFixed lists what exists: nodes, initialized first, those that are to run empty last of them, as
// kube-scheduler has it, then by name; then planned claims by name.
func (l *Layout) addFixed() {
	l.ByTarget = make(map[Target]*Bin, len(l.in.Nodes)+len(l.in.Planned))
	nodes := slices.Clone(l.in.Nodes)
	slices.SortFunc(nodes, func(a, b *planner.StateNode) int {
		order := -compareBool(a.Initialized, b.Initialized)
		if order == 0 {
			order = compareBool(a.DrainsOut, b.DrainsOut)
		}
		if order == 0 && l.in.Last != nil {
			order = compareBool(l.in.Last(a), l.in.Last(b))
		}
		return cmp.Or(order, cmp.Compare(a.Name, b.Name))
	})
	bins, places := make([]Bin, len(nodes)), make([]Node, len(nodes))
	for i, n := range nodes {
		b := &bins[i]
		places[i] = Node{State: n, Free: roomOf(n)}
		b.Place = &places[i]
		l.Add(b)
		l.ByTarget[Target{Node: n.Name}] = b
		if n.Claim != nil {
			l.ByTarget[Target{Claim: n.Claim.Name}] = b
		}
	}
	planned := slices.Clone(l.in.Planned)
	slices.SortFunc(planned, func(a, b PlannedInput) int { return cmp.Compare(a.Claim.Name, b.Claim.Name) })
	for i := range planned {
		b := &Bin{Place: l.newPlannedClaim(&planned[i])}
		l.Add(b)
		l.ByTarget[Target{Claim: planned[i].Claim.Name}] = b
	}
	l.Fixed = len(l.Bins)
	for _, n := range l.in.Leaving {
		l.leaving = append(l.leaving, &Bin{Index: topology.Elsewhere, Place: &Node{State: n.Node}})
	}
}

// Add appends a bin.
func (l *Layout) Add(b *Bin) {
	b.Index = len(l.Bins)
	l.Bins = append(l.Bins, b)
}

func compareBool(a, b bool) int {
	switch {
	case a == b:
		return 0
	case a:
		return 1
	}
	return -1
}

// Nodes yields those that exist, in order.
func (l *Layout) Nodes() iter.Seq2[*Bin, *Node] {
	return func(yield func(*Bin, *Node) bool) {
		for _, b := range l.Bins[:l.Fixed] {
			if n := b.Node(); n != nil && !yield(b, n) {
				return
			}
		}
	}
}

// Claims yields those that are being built, in order.
func (l *Layout) Claims() iter.Seq2[*Bin, *OpenClaim] {
	return func(yield func(*Bin, *OpenClaim) bool) {
		for _, b := range l.Bins {
			if o := b.Open(); o != nil && !b.Gone && !yield(b, o) {
				return
			}
		}
	}
}

// Discard recycles the parts of a new claim; nothing may refer to it any more. A round tries many packings
// and discards most of them, so the memory of a claim is reused.
func (l *Layout) Discard(b *Bin) {
	l.spareOpens = append(l.spareOpens, b.Open())
	*b = Bin{Added: b.Added[:0], records: b.records[:0]}
	l.spareBins = append(l.spareBins, b)
}

func (l *Layout) NewBin() *Bin { return reuse(&l.spareBins) }

// newOpen returns a claim whose fields must all be set; of its present ones only the memory of types is
// useful.
func (l *Layout) newOpen() *OpenClaim { return reuse(&l.spareOpens) }

// reuse takes the last spare one, or makes one.
func reuse[T any](spare *[]*T) *T {
	n := len(*spare)
	if n == 0 {
		return new(T)
	}
	x := (*spare)[n-1]
	*spare = (*spare)[:n-1]
	return x
}
