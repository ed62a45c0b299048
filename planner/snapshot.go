package planner

import (
	"encoding/json"
	"fmt"
	"slices"
	"time"

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
}

// NewSnapshot joins a World with a Ledger at a moment of the process's clock. Now never runs behind what
// either of them knows of. Options the Ledger does not hold have their defaults.
func NewSnapshot(w *world.World, l *ledger.Ledger, clock time.Time) *Snapshot {
	s := SnapshotAt(w, l, clock)
	for _, t := range []time.Time{l.LastTime(), w.AsOf()} {
		if t.After(s.Now) {
			s.Now = t.UTC()
		}
	}
	return s
}

// SnapshotAt is NewSnapshot with Now exactly as given: for replay, where Now is the record's.
func SnapshotAt(w *world.World, l *ledger.Ledger, now time.Time) *Snapshot {
	options := l.DecodedOptions(func(data []byte) any {
		o, err := DecodeOptions(data)
		if err != nil {
			return DefaultOptions()
		}
		return o
	})
	return &Snapshot{World: w, Ledger: l, Now: now.UTC(), Options: options.(Options), OptionsSeq: l.OptionsSeq()}
}

// DecodeOptions reads what EncodeOptions wrote; options that are not named have their defaults, as have all
// of nil.
func DecodeOptions(data []byte) (Options, error) {
	o := DefaultOptions()
	if len(data) == 0 {
		return o, nil
	}
	if err := json.Unmarshal(data, &o); err != nil {
		return DefaultOptions(), fmt.Errorf("decode options: %w", err)
	}
	return o, nil
}

// EncodeOptions gives the bytes of ledger.OptionsSet; equal options give equal bytes.
func EncodeOptions(o Options) []byte {
	b, err := json.Marshal(o)
	if err != nil {
		panic("planner: options cannot be encoded: " + err.Error())
	}
	return b
}

// Basis names the Snapshot for a decision's record.
func (s *Snapshot) Basis() Basis {
	return Basis{Position: s.World.Position(), LedgerSeq: s.Ledger.Seq(), Now: s.Now, OptionsSeq: s.OptionsSeq}
}

// Expect is Expect of the Snapshot's Ledger.
func (s *Snapshot) Expect(aggregates ...string) []Expectation { return Expect(s.Ledger, aggregates...) }

// Expect returns the aggregates, sorted and each once, with the sequence the Ledger has them at. One that stands at 0 and can be retired
// stands there only as long as nothing more is retired, so then that is expected too.
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
