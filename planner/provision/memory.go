package provision

import (
	"millwright/planner"
	"millwright/planner/provision/internal/recall"
)

// Memory gives back the results of simulations that cannot have changed since an earlier pass, and is of no
// other use: with it or without, on whatever came before, the result is the same to the bit but for
// Changed of the verdicts. The zero value is an empty one, and nil remembers nothing. It holds what it was
// asked about in the last passes, bounded by the pods of all questions, and is for one goroutine.
//
//	m.Begin(snapshot)
//	r := m.Simulate(snapshot, scenario) // any number of them
//	m.End()                             // the Snapshot may go
type Memory struct {
	kept    recall.Memory[Result]
	removed recall.Memory[Removal]
}

// Begin begins a pass over a Snapshot of versions that nothing changes; End ends it.
func (m *Memory) Begin(s *planner.Snapshot) {
	if m != nil {
		m.kept.Begin(s)
		m.removed.Begin(s)
	}
}

// End ends a pass.
func (m *Memory) End() {
	if m != nil {
		m.kept.End()
		m.removed.End()
	}
}

// Counts are how many simulations were asked for in all, without those with wishes, and how many of their
// results were given back.
func (m *Memory) Counts() (asked, recalled int) { return m.kept.Asked, m.kept.Recalled }

// Simulate is the function of that name for the Snapshot of the pass. The caller must not change the lists of
// the result.
func (m *Memory) Simulate(s *planner.Snapshot, sc Scenario) Result {
	if m == nil || len(sc.Places)+len(sc.Ignored)+len(sc.WithoutPools) > 0 {
		return Simulate(s, sc)
	}
	what := "placed"
	if sc.Pack {
		what = "packed"
	}
	in := scenarioInput(s, sc)
	return m.kept.Answer(what, in, sc.Without, func() Result { return simulate(s, sc, in) })
}
