package provision

import (
	"maps"
	"slices"

	"k8s.io/apimachinery/pkg/types"

	"millwright/planner"
	"millwright/planner/ledger"
	"millwright/planner/provision/internal/pack"
	"millwright/planner/provision/internal/place"
	"millwright/planner/provision/internal/refusal"
	"millwright/planner/provision/internal/solve"
	"millwright/planner/world"
)

// Scenario asks: what if these nodes were removed?
type Scenario struct {
	// Without are names of StateNodes whose capacity is not offered and whose pods move.
	Without []string
	// WithoutPools are NodePools that open no claims.
	WithoutPools []string
	// Places are nodes, by name, that pods are to go to if they fit there; the others are placed as by Plan.
	Places map[types.UID]string
	// Ignored pods need no place.
	Ignored map[types.UID]bool
	// Pack makes the new claims cheaper, as Plan does.
	Pack bool
}

// Result of a simulation.
type Result struct {
	// Claims that would have to be made, in the order they were opened.
	Claims []ledger.PlannedClaim
	// Verdicts on every pod that needs a place, as in Round; Changed has no meaning here.
	Verdicts []PodVerdict
	// Refused counts pods without a place. Uninitialized are nodes, sorted, that pods would go to before they
	// are ready.
	Refused       int
	Uninitialized []string
	PricePerHour  int64
	// steps that the search took; they bound it.
	steps int
}

// Simulate plans as Plan does, under the scenario, and decides nothing. Pods that are about to be bound, or
// created anew after an eviction, need a place too.
func Simulate(s *planner.Snapshot, sc Scenario) Result { return simulate(s, sc, scenarioInput(s, sc)) }

// scenarioInput is what there is under a scenario.
func scenarioInput(s *planner.Snapshot, sc Scenario) *solve.Input {
	in := inputOf(s, sc)
	in.Pods = slices.DeleteFunc(append(in.Pods, awaited(s)...), func(p *world.Pod) bool { return sc.Ignored[p.UID] })
	if len(sc.Places) > 0 {
		prior := in.Prior
		in.Prior = func(uid types.UID) place.Target {
			if node, ok := sc.Places[uid]; ok {
				return place.Target{Node: node}
			}
			return prior(uid)
		}
	}
	return in
}

func simulate(s *planner.Snapshot, sc Scenario, in *solve.Input) Result {
	sol := solve.Solve(in)
	if sc.Pack {
		pack.Repack(sol)
	}
	why := refusal.New(sol)
	why.ExplainAll()
	d := &decision{snapshot: s, solver: sol, why: why, index: map[*place.Bin]int{}, failed: map[*place.Bin][]ledger.Refusal{},
		subjects: map[string]bool{}, expects: map[string]bool{}, advances: map[string]bool{}}
	d.addClaims()
	r := Result{Claims: d.payload.Claims, PricePerHour: d.explain.PricePerHour, steps: sol.Steps}
	waiting := map[string]bool{}
	for _, it := range sol.Items {
		v := d.verdict(it)
		if len(v.Reasons) > 0 {
			r.Refused++
		} else if n := it.Bin.Node(); n != nil && !n.State.Initialized {
			waiting[n.State.Name] = true
		}
		r.Verdicts = append(r.Verdicts, v)
	}
	r.Uninitialized = slices.Sorted(maps.Keys(waiting))
	return r
}
