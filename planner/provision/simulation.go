package provision

import (
	"slices"

	"millwright/planner"
	"millwright/planner/ledger"
	"millwright/planner/world"
)

// Simulation answers, of one Snapshot, many questions of the form: if these nodes went, where would their pods go? What is the same for
// all questions is worked out once: what each kind of pod demands, what counts for topology, which nodes are full for whom. The pods that
// need a place anyway have theirs before the first question.
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
// Begin removes nodes and places their pods: on the nodes that stay, on planned claims, on new claims, by the rules of Plan, largest
// first. Commit keeps that for the questions to come, Revert takes it back. A pod that was placed on a node by an earlier question
// moves on when that node goes too. The answer to a question depends on what was committed before it, not on what was reverted.
//
// With nodes a, b and c of 4 CPU, and pods of 1 CPU on each:
//
//	Begin("a"): p1 to b    Commit     b holds p1 and its own pod
//	Begin("b"): p1 and p2 to c        Revert: they are on b again
//	Begin("c"): p3 to b               Commit
//
// A Simulation is for one goroutine; the Snapshot must not change meanwhile.
type Simulation struct {
	snapshot *planner.Snapshot
	solver   *solver
	budgets  *planner.PodBudgets
	// on are the items that were placed on each node, by pods that needed a place and by committed questions.
	on map[*bin][]*item
	// moving are the items of the question under way, removed its nodes.
	moving  []*item
	removed []*bin
}

// Settings of a Simulation.
type Settings struct {
	// WithoutPools are NodePools that open no claims.
	WithoutPools []string
	// Destinations orders the nodes that are offered to pods; initialized ones come first in any case, and equal ones by name. nil: by name.
	Destinations func(a, b *planner.StateNode) int
	// Closed nodes take no pods that move; nil: none.
	Closed func(n *planner.StateNode) bool
}

// Question asks what becomes of the pods if the nodes went.
type Question struct {
	// Without are names of StateNodes; unknown ones are ignored.
	Without []string
	// ClaimsMax is how many claims may be opened; negative: any number.
	ClaimsMax int
	// Hasty: the answer may end with the first pod that has no place; the others without an answer count as Unplaced.
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
	// PricePerHour is what these claims cost at the cheapest, and what earlier ones cost more than before, in micro USD.
	PricePerHour int64
	// Uninitialized are nodes, sorted, that pods would go to before they are ready.
	Uninitialized []string
}

// Move of a pod from the node or the new claim where it is, or was to go. At most one of Node, Claim and NewClaim is set; none: there is
// no place.
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
	in := inputOf(s, Scenario{WithoutPools: set.WithoutPools})
	in.simulated, in.destinations = true, set.Destinations
	budgets := s.PodBudgets()
	for _, n := range in.nodes {
		for _, p := range n.Pods {
			if budgets.IsMoving(p, s.Now) {
				in.mobile = append(in.mobile, p)
			}
		}
	}
	sim := &Simulation{snapshot: s, solver: solve(in), budgets: budgets, on: map[*bin][]*item{}}
	for _, it := range sim.solver.items {
		if it.bin != nil {
			sim.on[it.bin] = append(sim.on[it.bin], it)
		}
	}
	if set.Closed != nil {
		for _, b := range sim.solver.bins {
			b.shut = b.node != nil && set.Closed(b.node)
		}
	}
	return sim
}

// Begin asks what becomes of the pods of some nodes, with any number of new claims. It must be followed by Commit or Revert.
func (sim *Simulation) Begin(without ...string) Answer {
	return sim.Ask(Question{Without: without, ClaimsMax: -1})
}

// Ask is Begin with a bound.
func (sim *Simulation) Ask(q Question) Answer {
	s := sim.solver
	s.begin()
	s.trial.claimsMax, s.trial.hasty = q.ClaimsMax, q.Hasty
	sim.moving, sim.removed = nil, nil
	for _, name := range q.Without {
		if b := s.byTarget[target{node: name}]; b != nil && b.node != nil && !b.gone {
			s.remove(b)
			sim.removed = append(sim.removed, b)
		}
	}
	for _, b := range sim.removed {
		sim.unplace(b)
	}
	slices.SortFunc(sim.moving, compareItems)
	var waiting []*item
	for i, it := range sim.moving {
		it.at = i
		if len(it.class.invalid) == 0 {
			waiting = append(waiting, it)
		}
	}
	s.place(waiting)
	return sim.answer()
}

// unplace collects the pods of a node that goes: those that run there and those that were to go there.
func (sim *Simulation) unplace(b *bin) {
	s := sim.solver
	for _, p := range b.node.Pods {
		if sim.budgets.IsMoving(p, sim.snapshot.Now) {
			sim.moving = append(sim.moving, &item{pod: p, class: s.compiler.class(p)})
		}
	}
	for _, it := range sim.on[b] {
		s.relocate(it)
		sim.moving = append(sim.moving, it)
	}
}

func (sim *Simulation) answer() Answer {
	s := sim.solver
	a := Answer{Moves: make([]Move, 0, len(sim.moving))}
	waiting := map[string]bool{}
	for _, it := range sim.moving {
		m := Move{Pod: it.pod, From: it.pod.NodeName, Relaxed: it.level > 0}
		switch b := it.bin; {
		case b == nil:
			a.Unplaced++
		case b.open != nil:
			m.NewClaim = sim.idOf(b)
		case b.planned != nil:
			m.Claim = b.planned.claim.Name
		case b.node.Node == nil:
			m.Claim = b.node.Claim.Name
		default:
			m.Node = b.node.Name
			if !b.node.Initialized {
				waiting[m.Node] = true
			}
		}
		a.Moves = append(a.Moves, m)
	}
	a.Uninitialized = sortedSet(waiting)
	for _, b := range s.bins[s.trial.bins:] {
		a.Claims = append(a.Claims, sim.idOf(b))
		a.PricePerHour += b.open.cheapest()
	}
	for _, x := range s.trial.open {
		a.PricePerHour += x.bin.open.cheapest() - x.savedBin.open.cheapest()
	}
	return a
}

// idOf a new claim: 1 for the first that was opened.
func (sim *Simulation) idOf(b *bin) int { return b.index - sim.solver.fixed + 1 }

// Claim is a new claim as it stands now: with the pods of the question under way, and its instance types by price. The error says why it
// could not be made so. Ids are of claims that an Answer names, or below: the first ones are for pods that need a place anyway. Those of
// reverted questions are used again.
func (sim *Simulation) Claim(id int) (ledger.PlannedClaim, error) {
	p, _, err := sim.solver.finisher().finish(sim.solver.bins[sim.solver.fixed+id-1])
	return p, err
}

// Why says why a pod of the question under way has no place: one reason per NodePool.
func (sim *Simulation) Why(p *world.Pod) []ledger.Refusal {
	s := sim.solver
	c := s.compiler.class(p)
	if len(c.invalid) > 0 {
		return c.invalid
	}
	c.refused = nil
	reasons := s.refusals(c)
	c.refused = nil
	return reasons
}

// Commit keeps the answer for the questions to come.
func (sim *Simulation) Commit() {
	sim.solver.commitTrial()
	for _, b := range sim.removed {
		delete(sim.on, b)
	}
	for _, it := range sim.moving {
		if it.bin != nil {
			sim.on[it.bin] = append(sim.on[it.bin], it)
		}
	}
}

// Revert takes the question back.
func (sim *Simulation) Revert() { sim.solver.revert() }
