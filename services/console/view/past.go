package view

import (
	"fmt"
	"sync"
	"time"

	"millwright/services/console/history"
)

// Timeline of what happened since a time, in one NodePool or, if that is nil, in all.
func (v *View) Timeline(from time.Time, pool *string) (*history.Timeline, error) {
	_, l, err := v.versions()
	if err != nil {
		return nil, err
	}
	if err := v.past(); err != nil {
		return nil, err
	}
	nodes, price := 0, int64(0)
	for _, c := range l.Claims() {
		if c.Instance != nil && !c.Terminated && (pool == nil || c.NodePool == *pool) {
			nodes, price = nodes+1, price+c.Instance.Price
		}
	}
	return v.cfg.History.Timeline(from, v.cfg.Now(), pool, nodes, price), nil
}

// Savings of the commands that were decided since a time; zero: of all that are known.
func (v *View) Savings(since time.Time) (*history.Savings, error) {
	if err := v.past(); err != nil {
		return nil, err
	}
	return v.savings.get(since, v.cfg.Now, v.cfg.History.Savings), nil
}

// savingsKept bounds the answers that are remembered.
const savingsKept = 16

// savings are the answers of a moment ago: one is made at a time, and good as Now is.
type savings struct {
	sync.Mutex
	made map[time.Time]savingsMade
}

type savingsMade struct {
	*history.Savings
	until time.Time
}

// get makes an answer, or returns one of a moment ago that was asked for with nearly the same time.
func (s *savings) get(since time.Time, now func() time.Time, make func(time.Time) *history.Savings) *history.Savings {
	key := since.Truncate(freshFor)
	s.Lock()
	defer s.Unlock()
	began := now()
	if m, ok := s.made[key]; ok && began.Before(m.until) {
		return m.Savings
	}
	x := make(since)
	if len(s.made) >= savingsKept || s.made == nil {
		s.made = map[time.Time]savingsMade{}
	}
	ended := now()
	s.made[key] = savingsMade{x, ended.Add(max(freshFor, shareOfTime*ended.Sub(began)))}
	return x
}

// Summary says in sentences what happened since a time.
func (v *View) Summary(since time.Time) ([]string, error) {
	if err := v.past(); err != nil {
		return nil, err
	}
	return v.cfg.History.Summary(since, v.cfg.Now()), nil
}

// past returns why nothing can be said about it yet; nil if it can.
func (v *View) past() error {
	if v.cfg.History == nil {
		return fmt.Errorf("%w: no history is kept", ErrNotReady)
	}
	if first, last, head := v.cfg.Index.Extent(); last < first || last < head {
		return fmt.Errorf("%w: the log is being read, record %d of %d", ErrNotReady, last, head)
	}
	return nil
}
