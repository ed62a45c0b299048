package view

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"

	"millwright/planner/ledger"
	"millwright/services/console/history"
	"millwright/store/audit"
	"millwright/store/audit/overview"
)

// Timeline of what happened since a time, as far as a filter lets it through; subject "" is the whole
// cluster, any other what its story is of. It returns ErrNotFound if the log has nothing about the subject.
func (v *View) Timeline(ctx context.Context, from time.Time, f history.Filter, subject string) (*history.Timeline, error) {
	if pool, ok := strings.CutPrefix(subject, "pool/"); ok && f.NodePool == nil {
		f.NodePool, subject = &pool, ""
	}
	if subject != "" {
		return v.timelineOf(ctx, from, f, subject)
	}
	_, l, err := v.versions()
	if err != nil {
		return nil, err
	}
	if err := v.past(); err != nil {
		return nil, err
	}
	nodes, price := 0, int64(0)
	for _, c := range l.Claims() {
		if c.Instance != nil && !c.Terminated && (f.NodePool == nil || c.NodePool == *f.NodePool) {
			nodes, price = nodes+1, price+c.Instance.Price
		}
	}
	return v.history().Timeline(from, v.cfg.Now(), f, nodes, price), nil
}

// timelineOf an object counts the records of its story.
func (v *View) timelineOf(ctx context.Context, from time.Time, f history.Filter, subject string) (*history.Timeline, error) {
	ctx, cancel := context.WithTimeout(ctx, storyTimeout)
	defer cancel()
	if err := v.past(); err != nil {
		return nil, err
	}
	select {
	case v.asking <- struct{}{}:
		defer func() { <-v.asking }()
	case <-ctx.Done():
		return nil, ErrBusy
	}
	entries, cut, err := v.about(ctx, subject)
	if err != nil {
		return nil, err
	}
	logID := v.cfg.Log.ID()
	told := map[uint64]bool{}
	for _, l := range audit.WhyOf(entries, logID, subject) {
		told[l.Seq] = true
	}
	if len(told) == 0 {
		return nil, fmt.Errorf("%w: the log has nothing about %s", ErrNotFound, subject)
	}
	claims := map[string]bool{}
	for _, s := range audit.Linked(entries, logID, subject) {
		if claim, ok := strings.CutPrefix(s, "claim/"); ok {
			claims[claim] = true
		}
	}
	if strings.HasPrefix(subject, "offering/") || strings.HasPrefix(subject, "nodeclass/") {
		claims = nil
	}
	entries = slices.DeleteFunc(slices.Clone(entries), func(e ledger.Entry) bool { return !told[e.Seq] })
	h := history.Of(logID, entries, claims)
	nodes, price := h.Running()
	t := h.Timeline(from, v.cfg.Now(), f, nodes, price)
	t.Cut, t.Missed = cut, 0
	return t, nil
}

// Savings of the commands that were decided since a time; zero: of all that are known.
func (v *View) Savings(since time.Time) (*history.Savings, error) {
	if err := v.past(); err != nil {
		return nil, err
	}
	return v.savings.get(since, v.cfg.Now, func(since time.Time) *history.Savings { return v.history().Savings(since, v.cfg.Now()) }), nil
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
	at      time.Time
	goodFor time.Duration
}

// get makes an answer, or returns one of a moment ago that was asked for with nearly the same time.
func (s *savings) get(since time.Time, now func() time.Time, make func(time.Time) *history.Savings) *history.Savings {
	key := since.Truncate(freshFor)
	s.Lock()
	defer s.Unlock()
	began := now()
	if m, ok := s.made[key]; ok && began.Sub(m.at).Abs() < m.goodFor {
		return m.Savings
	}
	x := make(since)
	if len(s.made) >= savingsKept || s.made == nil {
		s.made = map[time.Time]savingsMade{}
	}
	ended := now()
	s.made[key] = savingsMade{x, ended, max(freshFor, shareOfTime*ended.Sub(began))}
	return x
}

// Summary says in sentences what happened since a time.
func (v *View) Summary(since time.Time) ([]string, error) {
	if err := v.past(); err != nil {
		return nil, err
	}
	return v.history().Summary(since, v.cfg.Now()), nil
}

// history of the whole log, or of its newest records while that is being read.
func (v *View) history() *history.History {
	if v.cfg.Past != nil {
		if h := v.cfg.Past.History(); h != nil {
			return h
		}
	}
	return v.cfg.History
}

// Whole is the history that savings are told of; nil while what it is made of is being read.
func (v *View) Whole() *history.History {
	if v.past() != nil || v.cfg.Past != nil && v.cfg.Past.History() == nil {
		return nil
	}
	return v.history()
}

// Health ranks what instances ran on that failed since a time; zero: ever.
func (v *View) Health(since time.Time) ([]overview.HealthRow, error) {
	if err := v.past(); err != nil {
		return nil, err
	}
	return v.history().Health(since), nil
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
