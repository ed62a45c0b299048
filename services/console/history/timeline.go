package history

import (
	"maps"
	"slices"
	"strings"
	"time"

	"millwright/planner/ledger"
)

// Point is a span of a Timeline.
type Point struct {
	At time.Time `json:"at"`
	// Nodes and MicroUSDPerHour are of the instances at its end.
	Nodes           int   `json:"nodes"`
	MicroUSDPerHour int64 `json:"microUSDPerHour"`
	Sums
}

// Timeline is what happened, by spans of equal length, oldest first. Spans in which nothing happened and
// nothing changed are left out.
type Timeline struct {
	Seconds int64   `json:"seconds"`
	Points  []Point `json:"points"`
	// Reasons for which anything happened in that time, sorted, at most reasonsMax.
	Reasons []string `json:"reasons,omitempty"`
	// From is when the records begin that it is of, First the first of them; Missed counts those that could
	// not be read, Unpriced the instances that ended whose price is on no record: with either, nodes and cost
	// are too low before.
	From     time.Time `json:"from,omitzero"`
	First    uint64    `json:"first"`
	Missed   uint64    `json:"missed"`
	Unpriced int       `json:"unpriced"`
	// Cut: it is of an object that more records are about than are counted, the newest.
	Cut bool `json:"cut,omitempty"`
}

const (
	// pointsMax bounds a Timeline, reasonsMax the reasons that it names.
	pointsMax  = 1500
	reasonsMax = 100
)

// Filter of a Timeline.
type Filter struct {
	// NodePool alone; nil: all.
	NodePool *string
	// Kind is one of Kinds; empty: all. Reason as records have it, in any case; empty: all.
	Kind, Reason string
}

// Kinds of what happens, as Sums names them.
var Kinds = []string{"decisions", "planned", "launched", "failed", "commands", "drains", "doomed", "ended", "alarms"}

// only are the sums of one kind, and by how much nodes and cost grew.
func (s Sums) only(kind string) Sums {
	o := Sums{nodes: s.nodes, price: s.price}
	switch kind {
	case "":
		return s
	case "decisions":
		o.Decisions = s.Decisions
	case "planned":
		o.Planned = s.Planned
	case "launched":
		o.Launched = s.Launched
	case "failed":
		o.Failed = s.Failed
	case "commands":
		o.Commands = s.Commands
	case "drains":
		o.Drains = s.Drains
	case "doomed":
		o.Doomed = s.Doomed
	case "ended":
		o.Ended = s.Ended
	case "alarms":
		o.Alarms = s.Alarms
	}
	return o
}

// Happened reports that anything did, other than that nodes or cost changed.
func (s Sums) Happened() bool {
	s.nodes, s.price = 0, 0
	return s != (Sums{})
}

// of are the sums of a span that a filter lets through. Nodes and cost are those of the NodePool, whatever
// else it asks for.
func (f *Filter) of(by cell, s *Sums) (out Sums) {
	switch {
	case f.NodePool != nil && *f.NodePool != by.Pool:
		return Sums{}
	case f.Reason != "" && !strings.EqualFold(f.Reason, by.Reason):
		return Sums{nodes: s.nodes, price: s.price}
	}
	return s.only(f.Kind)
}

// Timeline from a time on, of what a filter lets through. Nodes and cost are those of now, and further back
// what the records say that changed.
func (h *History) Timeline(from, now time.Time, f Filter, nodes int, price int64) *Timeline {
	h.mu.Lock()
	defer h.mu.Unlock()
	r, since := &h.rings[0], from
	if h.first.Time.After(since) { // a young log fills a year by the minute
		since = h.first.Time
	}
	for i := range resolutions {
		if r = &h.rings[i]; now.Sub(since) <= r.span*time.Duration(min(r.keep, 480)) {
			break
		}
	}
	t := &Timeline{Seconds: int64(r.span / time.Second), Points: []Point{}, From: h.first.Time.UTC(), First: h.first.Seq, Missed: h.missed, Unpriced: h.unpriced}
	reasons := map[string]bool{}
	for i := len(r.spans) - 1; i >= 0 && len(t.Points) < pointsMax; i-- {
		s := &r.spans[i]
		if s.at.Add(r.span).Before(from) {
			break
		}
		p := Point{At: s.at, Nodes: nodes, MicroUSDPerHour: price}
		for by, sums := range s.cells {
			p.Sums.add(f.of(by, sums))
			if by.Reason != "" && len(reasons) < reasonsMax {
				reasons[by.Reason] = true
			}
		}
		nodes, price = nodes-p.nodes, price-p.price
		if p.Sums != (Sums{}) {
			t.Points = append(t.Points, p)
		}
	}
	slices.Reverse(t.Points)
	t.Reasons = slices.Sorted(maps.Keys(reasons))
	return t
}

// Of is the History of the records of one story. claims are the ones that it is of, of those that a record is
// about beside others; nil: all count.
func Of(logID string, entries []ledger.Entry, claims map[string]bool) *History {
	h := New(logID)
	h.only = claims
	for _, e := range entries {
		h.Add(e)
	}
	h.missed = 0
	return h
}

// Running counts the instances of a History that have not ended, and what they cost in micro USD per hour.
func (h *History) Running() (nodes int, price int64) {
	h.mu.Lock()
	defer h.mu.Unlock()
	for _, c := range h.claims {
		if c.up {
			nodes, price = nodes+1, price+c.price
		}
	}
	return nodes, price
}
