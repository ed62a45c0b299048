package provision

import (
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/types"

	"millwright/planner"
	"millwright/planner/ledger"
	"millwright/planner/provision/internal/recall"
	"millwright/planner/provision/internal/solve"
)

// Removal is what becomes of the pods of some nodes when they go.
type Removal struct {
	Answer
	// Opened are the claims that were opened, by id.
	Opened map[int]Opened
	// Why has the reasons of each pod without a place, one per NodePool.
	Why map[types.UID][]ledger.Refusal
}

// Opened is a claim that was opened, with the pods of the question, or why it can't be made so.
type Opened struct {
	Claim ledger.PlannedClaim
	Err   error
}

// Remove is Begin with all that there is to know of the answer. It must be followed by Commit, Promise or
// Revert.
func (sim *Simulation) Remove(without ...string) Removal {
	r := Removal{Answer: sim.Begin(without...)}
	for _, id := range r.Claims {
		if r.Opened == nil {
			r.Opened = make(map[int]Opened, len(r.Claims))
		}
		c, err := sim.Claim(id)
		r.Opened[id] = Opened{c, err}
	}
	for i := range r.Moves {
		m := &r.Moves[i]
		if m.Node != "" || m.Claim != "" || m.NewClaim > 0 {
			continue
		}
		if r.Why == nil {
			r.Why = map[types.UID][]ledger.Refusal{}
		}
		r.Why[m.Pod.UID] = sim.Why(m.Pod)
	}
	return r
}

// Removals answers questions about one Snapshot: by what a Memory knows of earlier Snapshots, if it comes out
// the same to the bit, else by a Simulation, which is prepared for the first question that needs it. What is
// committed in that counts from then on. It is for one goroutine.
type Removals struct {
	s      *planner.Snapshot
	set    Settings
	memory *Memory
	in     *solve.Input
	sim    *Simulation
	// reads of the Simulation.
	reads *recall.Reads
	// marks are what the settings say of single nodes; waiting is nil until asked for.
	marks   string
	waiting map[types.UID]string
}

// NewRemovals returns what answers by these settings. A Memory must have begun with the Snapshot; nil: none.
func NewRemovals(s *planner.Snapshot, set Settings, m *Memory) *Removals {
	return &Removals{s: s, set: set, memory: m, in: simulationInput(s, set)}
}

// Simulation is the one that answers.
func (x *Removals) Simulation() *Simulation {
	if x.sim == nil {
		in := *x.in
		if x.memory != nil {
			x.reads = x.memory.removed.Watch(&in)
		}
		x.sim = newSimulation(x.s, x.set, &in)
		x.waiting = x.sim.Waiting()
	}
	return x.sim
}

// Of says what becomes of the pods of nodes, by name. The caller must not change what it gets.
func (x *Removals) Of(without ...string) Removal {
	work := func() (Removal, *recall.Reads) {
		r := x.Simulation().Remove(without...)
		x.sim.Revert()
		return r, x.reads
	}
	// With pods that need a place anyway the Simulation is needed in any case, and to compare them for each
	// question could cost more than to ask.
	if x.memory == nil || len(x.in.Pods) > 0 || x.sim != nil && x.sim.committed {
		r, _ := work()
		return r
	}
	return x.memory.removed.AnswerOneOfMany(x.nodeMarks(), x.with(without), without, work)
}

// with is what there is, and the pods of nodes that go; no others need a place.
func (x *Removals) with(without []string) *solve.Input {
	in := *x.in
	for _, name := range without {
		if n := x.s.StateNode(name); n != nil {
			in.Pods = slices.AppendSeq(in.Pods, moving(x.s, x.set, n))
		}
	}
	return &in
}

// nodeMarks are the settings' answers on all nodes, as text.
func (x *Removals) nodeMarks() string {
	if x.marks != "" {
		return x.marks
	}
	text := []string{"marks"}
	for _, n := range x.s.StateNodes() {
		if x.set.Last != nil && x.set.Last(n) {
			text = append(text, "last "+n.Name)
		}
		if x.set.Closed != nil && x.set.Closed(n) {
			text = append(text, "closed "+n.Name)
		}
	}
	x.marks = strings.Join(text, "\n")
	return x.marks
}

// Waiting is Simulation.Waiting, for which none need be prepared if no pod needs a place. The caller must not
// change it.
func (x *Removals) Waiting() map[types.UID]string {
	if x.waiting == nil && len(x.in.Pods) > 0 {
		x.Simulation()
	}
	return x.waiting
}
