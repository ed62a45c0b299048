package planner

import (
	"slices"
	"time"

	"k8s.io/apimachinery/pkg/types"

	"millwright/planner/ledger"
	"millwright/planner/world"
)

// cache holds what a Snapshot computes once.
type cache struct {
	nodes    []*StateNode
	byName   map[string]*StateNode
	byClaim  map[string]*StateNode
	inFlight []*ledger.Claim
	budgets  *PodBudgets
	running  map[string]string
	buffers  []*Buffer
	// ready counts pods by workload, succeeded are pods by UID.
	ready     map[string]int
	succeeded map[types.UID]bool
	// surging are the DisruptionPolicies that ask for surge, by NodePool; owners what is known of those of
	// classes.
	surging map[string]string
	owners  map[matchKey]string
}

// NewSnapshot joins a World with a Ledger at a moment of the process's checked clock (see NowOf). Options the
// Ledger does not hold have their defaults.
func NewSnapshot(w *world.World, l *ledger.Ledger, clock time.Time) *Snapshot {
	return SnapshotAt(w, l, NowOf(clock, l.LastTime(), w.AsOf()))
}

// NowOf is a process's checked clock, raised to what others have seen by then if that is at most
// ledger.ClockTolerance ahead: a clock that is a little slow opens no window again, and one record from the
// future moves nobody.
func NowOf(clock time.Time, seen ...time.Time) time.Time {
	now := clock
	for _, t := range seen {
		if t.After(now) && t.Sub(clock) <= ledger.ClockTolerance {
			now = t
		}
	}
	return now.UTC()
}

// Certain is the time that it is at least, by more than one clock: the earlier of Now and of what the World
// is as of. What is forceful by time alone follows from it. Without a heartbeat it is Now.
func (s *Snapshot) Certain() time.Time {
	if asOf := s.World.AsOf(); !asOf.IsZero() && asOf.Before(s.Now) {
		return asOf.UTC()
	}
	return s.Now
}

// SnapshotAt is NewSnapshot with Now exactly as given: for replay, where Now is the record's.
func SnapshotAt(w *world.World, l *ledger.Ledger, now time.Time) *Snapshot {
	return &Snapshot{World: world.WithMemory(w, l.Memory()), Ledger: l, Now: now.UTC(), Options: l.PlanningOptions(), OptionsSeq: l.OptionsSeq()}
}

// Basis names the Snapshot for a decision's record.
func (s *Snapshot) Basis() Basis {
	return Basis{Position: s.World.Position(), LedgerSeq: s.Ledger.Seq(), Now: s.Now, OptionsSeq: s.OptionsSeq}
}

// Expect is Expect of the Snapshot's Ledger.
func (s *Snapshot) Expect(aggregates ...string) []Expectation { return Expect(s.Ledger, aggregates...) }

// Expect returns the aggregates, sorted and each once, with the sequence the Ledger has them at. One that
// stands at 0 and can be retired stands there only as long as nothing more is retired, so then that is
// expected too.
func Expect(l *ledger.Ledger, aggregates ...string) []Expectation {
	names := slices.Clone(aggregates)
	if slices.ContainsFunc(names, func(n string) bool { return ledger.Retirable(n) && l.Aggregate(n) == 0 }) {
		names = append(names, ledger.RetiredAggregate)
	}
	slices.Sort(names)
	names = slices.Compact(names)
	list := make([]Expectation, len(names))
	for i, n := range names {
		list[i] = Expectation{Aggregate: n, Seq: l.Aggregate(n)}
	}
	return list
}

// CommandOf returns the id of the running command that takes a claim; "" if none does.
func (s *Snapshot) CommandOf(claim string) string {
	if s.cache.running == nil {
		s.cache.running = map[string]string{}
		for _, c := range s.Ledger.Commands() {
			for _, cand := range c.Started.Candidates {
				s.cache.running[cand.Claim] = c.ID
			}
		}
	}
	return s.cache.running[claim]
}
