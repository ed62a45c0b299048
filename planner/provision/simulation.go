package provision

import (
	"iter"
	"maps"
	"slices"

	"k8s.io/apimachinery/pkg/types"

	"millwright/planner"
	"millwright/planner/ledger"
	"millwright/planner/options"
	"millwright/planner/provision/internal/place"
	"millwright/planner/provision/internal/refusal"
	"millwright/planner/provision/internal/solve"
	"millwright/planner/world"
)

// Simulation answers, of one Snapshot, many questions of the form: if these nodes went, where would their
// pods go? What is the same for all questions is worked out once: what each kind of pod demands, what counts
// for topology, which nodes are full for whom. The pods that need a place anyway have theirs before the first
// question.
//
//	sim := NewSimulation(snapshot, Settings{})
//	for _, n := range candidates {
//		got := sim.Begin(n.Name)
//		if got.Unplaced == 0 && len(got.Claims) == 0 {
//			sim.Commit() // n can go; what is asked from here on counts its pods where they would be
//		} else {
//			sim.Revert()
//		}
//	}
//
// Begin removes nodes and places their pods: on the nodes that stay, on planned claims, on new claims, by the
// rules of Plan, largest first. Commit keeps that for the questions to come, Revert takes it back. A pod that
// was placed on a node by an earlier question moves on when that node goes too. The answer to a question
// depends on what was committed before it, not on what was reverted.
//
// With nodes a, b and c of 4 CPU, and pods of 1 CPU on each:
//
//	Begin("a"): p1 to b    Commit     b holds p1 and its own pod
//	Begin("b"): p1 and p2 to c        Revert: they are on b again
//	Begin("c"): p3 to b               Commit
//
// A Simulation is for one goroutine; the Snapshot must not change meanwhile.
type Simulation struct {
	solver *solve.Solver
	why    *refusal.Explainer
	// moves reports that a pod moves when its node goes.
	moves func(*world.Pod) bool
	// on are the items that were placed on each node, by pods that needed a place and by committed questions.
	on map[*place.Bin][]*solve.Item
	// moving are the items of the question under way, removed its nodes.
	moving  []*solve.Item
	removed []*place.Bin
	// committed: some question was.
	committed bool
	// finisher knows the shapes of claims of earlier questions, shapesMax at most: many are alike.
	finisher *place.Finisher
}

const shapesMax = 500

// Settings of a Simulation.
type Settings struct {
	// WithoutPools are NodePools that open no claims.
	WithoutPools []string
	// Last nodes are offered to pods after the others; initialized ones come first in any case, and equal
	// ones by name. nil: none.
	Last func(n *planner.StateNode) bool
	// Closed nodes take no pods that move; nil: none.
	Closed func(n *planner.StateNode) bool
	// Held: pods move too that nobody may move now, being protected or held by a budget: the question is
	// where they would be, were they created anew.
	Held bool
}

// Question asks what becomes of the pods if the nodes went.
type Question struct {
	// Without are names of StateNodes; unknown ones are ignored.
	Without []string
	// ClaimsMax is how many claims may be opened; negative: any number.
	ClaimsMax int
	// Hasty: the answer may end with the first pod that has no place; the others without an answer count as
	// Unplaced.
	Hasty bool
}

// Answer to a Question. Its slices are the caller's.
type Answer struct {
	// Moves of the pods, largest first.
	Moves []Move
	// Unplaced counts those without a place.
	Unplaced int
	// Claims that were opened, as for Simulation.Claim, in the order they were.
	Claims []int
	// PricePerHour is what these claims cost at the cheapest, and what earlier ones cost more than before, in
	// micro USD.
	PricePerHour int64
	// Uninitialized are nodes, sorted, that pods would go to before they are ready.
	Uninitialized []string
}

// Move of a pod from the node or the new claim where it is, or was to go. At most one of Node, Claim and
// NewClaim is set; none: there is no place.
type Move struct {
	Pod  *world.Pod
	From string
	// Node or Claim (planned, not a node yet).
	Node, Claim string
	// NewClaim as for Simulation.Claim; 0: none.
	NewClaim int
	// Relaxed: some of the pod's preferences are not met.
	Relaxed bool
}

// NewSimulation prepares for questions, with the pods placed that need a place anyway.
func NewSimulation(s *planner.Snapshot, set Settings) *Simulation {
	return newSimulation(s, set, simulationInput(s, set))
}

// simulationInput is what there is with all nodes there.
func simulationInput(s *planner.Snapshot, set Settings) *solve.Input {
	in := inputOf(s, Scenario{WithoutPools: set.WithoutPools})
	in.Pods = append(in.Pods, awaited(s)...)
	in.Simulated, in.Last = true, set.Last
	return in
}

// moving are the pods of a node that move when it goes.
func moving(s *planner.Snapshot, set Settings, n *planner.StateNode) iter.Seq[*world.Pod] {
	moves := set.moves(s)
	return func(yield func(*world.Pod) bool) {
		for _, p := range n.Pods {
			if moves(p) && !yield(p) {
				return
			}
		}
	}
}

// moves reports that a pod moves when its node goes.
func (set Settings) moves(s *planner.Snapshot) func(*world.Pod) bool {
	if set.Held {
		return planner.IsReschedulable
	}
	budgets := s.PodBudgets()
	return func(p *world.Pod) bool { return budgets.IsMoving(p, s.Now) }
}

func newSimulation(s *planner.Snapshot, set Settings, in *solve.Input) *Simulation {
	moves := set.moves(s)
	if s.Options.Revision >= options.Revision1 {
		in.Stays = func(p *world.Pod) bool { return !moves(p) }
	}
	for _, n := range in.Nodes {
		in.Mobile = slices.AppendSeq(in.Mobile, moving(s, set, n))
	}
	sol := solve.Solve(in)
	sim := &Simulation{solver: sol, why: refusal.New(sol), moves: moves, on: map[*place.Bin][]*solve.Item{}}
	for _, it := range sim.solver.Items {
		if it.Bin != nil {
			sim.on[it.Bin] = append(sim.on[it.Bin], it)
		}
	}
	if set.Closed != nil {
		for _, n := range sim.solver.Nodes() {
			n.Shut = set.Closed(n.State)
		}
	}
	return sim
}

// Begin asks what becomes of the pods of some nodes, with any number of new claims. It must be followed by
// Commit or Revert.
func (sim *Simulation) Begin(without ...string) Answer {
	return sim.Ask(Question{Without: without, ClaimsMax: -1})
}

// Ask is Begin with a bound.
func (sim *Simulation) Ask(q Question) Answer {
	s := sim.solver
	if s.Trial != nil {
		panic("provision: a question begins before the last one was committed or reverted")
	}
	s.Begin(solve.Bounds{ClaimsMax: q.ClaimsMax, Hasty: q.Hasty})
	sim.moving, sim.removed = nil, nil
	for _, name := range q.Without {
		if b := s.ByTarget[place.Target{Node: name}]; b != nil && !b.Gone {
			s.Remove(b)
			sim.removed = append(sim.removed, b)
		}
	}
	for _, b := range sim.removed {
		sim.unplace(b)
	}
	slices.SortFunc(sim.moving, solve.CompareItems)
	var waiting []*solve.Item
	for i, it := range sim.moving {
		it.At = i
		if len(it.Class.Invalid) == 0 {
			waiting = append(waiting, it)
		}
	}
	s.Place(waiting, &solve.Mode{})
	return sim.answer()
}

// unplace collects the pods of a node that goes: those that run there and those that were to go there.
func (sim *Simulation) unplace(b *place.Bin) {
	s := sim.solver
	for _, p := range b.Node().State.Pods {
		if sim.moves(p) {
			sim.moving = append(sim.moving, &solve.Item{Pod: p, Class: s.ClassOf(p)})
		}
	}
	for _, it := range sim.on[b] {
		s.Relocate(it)
		sim.moving = append(sim.moving, it)
	}
}

func (sim *Simulation) answer() Answer {
	s := sim.solver
	a := Answer{Moves: make([]Move, 0, len(sim.moving))}
	waiting := map[string]bool{}
	for _, it := range sim.moving {
		m := Move{Pod: it.Pod, From: it.Pod.NodeName, Relaxed: it.Level > 0}
		switch b := it.Bin; {
		case b == nil:
			a.Unplaced++
		case b.Open() != nil:
			m.NewClaim = sim.idOf(b)
		default:
			to := b.Place.Target()
			m.Node, m.Claim = to.Node, to.Claim
			if n := b.Node(); m.Node != "" && !n.State.Initialized {
				waiting[m.Node] = true
			}
		}
		a.Moves = append(a.Moves, m)
	}
	a.Uninitialized = slices.Sorted(maps.Keys(waiting))
	for _, b := range s.Trial.Opened(s) {
		a.Claims = append(a.Claims, sim.idOf(b))
		a.PricePerHour += b.Open().Cheapest()
	}
	a.PricePerHour += s.Changes.Dearer()
	return a
}

// idOf a new claim: 1 for the first that was opened.
func (sim *Simulation) idOf(b *place.Bin) int { return b.Index - sim.solver.Fixed + 1 }

// Claim is a new claim as it stands now: with the pods of the question under way, and its instance types by
// price. The error says why it could not be made so. Ids are of claims that an Answer names, or below: the
// first ones are for pods that need a place anyway. Those of reverted questions are used again.
func (sim *Simulation) Claim(id int) (ledger.PlannedClaim, error) {
	if sim.finisher == nil || sim.finisher.Shapes() >= shapesMax {
		sim.finisher = place.NewFinisher(&sim.solver.In.Options)
	}
	p, _, err := sim.finisher.Finish(sim.solver.Bins[sim.solver.Fixed+id-1])
	return p, err
}

// Why says why a pod of the question under way has no place: one reason per NodePool.
func (sim *Simulation) Why(p *world.Pod) []ledger.Refusal {
	c := sim.solver.Compiler.Class(p)
	if len(c.Invalid) > 0 {
		return c.Invalid
	}
	return sim.why.RefusalsNow(c)
}

// Commit keeps the answer for the questions to come.
func (sim *Simulation) Commit() {
	sim.solver.Commit()
	sim.committed = true
	for _, b := range sim.removed {
		delete(sim.on, b)
	}
	for _, it := range sim.moving {
		if it.Bin != nil {
			sim.on[it.Bin] = append(sim.on[it.Bin], it)
		}
	}
}

// Promise is Commit for an answer that becomes a record: the claims it opened, by their ids, are planned from
// here on. Their specs are fixed, so that pods of later questions go there only if they fit whatever becomes
// of the claim, as Move.Claim; under names that begin with the given one.
func (sim *Simulation) Promise(name string, claims map[int]*ledger.PlannedClaim) {
	sim.Commit()
	for _, id := range slices.Sorted(maps.Keys(claims)) {
		sim.solver.Promise(sim.solver.Bins[sim.solver.Fixed+id-1], name, claims[id])
	}
}

// Waiting are the pods that need a place anyway and have one on a node, with its name, before any question.
func (sim *Simulation) Waiting() map[types.UID]string {
	places := map[types.UID]string{}
	for _, it := range sim.solver.Items {
		if !it.Virtual && it.Bin != nil && it.Bin.Node() != nil {
			places[it.Pod.UID] = it.Bin.Node().State.Name
		}
	}
	return places
}

// VirtualPods are the virtual pods of CapacityBuffers that have room on nodes, by node, in the order of the
// queue, before any question.
func (sim *Simulation) VirtualPods() map[string][]*world.Pod {
	byNode := map[string][]*world.Pod{}
	for _, it := range sim.solver.Items {
		if it.Virtual && it.Bin != nil && it.Bin.Node() != nil {
			name := it.Bin.Node().State.Name
			byNode[name] = append(byNode[name], it.Pod)
		}
	}
	return byNode
}

// Revert takes the question back.
func (sim *Simulation) Revert() { sim.solver.Revert() }
