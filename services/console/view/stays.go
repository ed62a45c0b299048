package view

import (
	"context"
	"sync"
	"time"

	"millwright/planner"
	"millwright/planner/disrupt"
	"millwright/planner/ledger"
)

const (
	// lookFresh is how long it is good what a look at all nodes found; shareOfLook, if that is longer, how
	// many times as long as the look took: in a large cluster it costs a fiftieth of a core, while anybody
	// asks. lookWait is how long who begins one waits for it; then they see what the one before found.
	lookFresh   = 15 * time.Second
	shareOfLook = 50
	// lookFreshMost bounds both, should a clock jump while a look is taken.
	lookFreshMost = 30 * time.Minute
	lookWait      = 700 * time.Millisecond
)

// stays says why nodes stay, as the last look at all of them found: a pass of the disruptor's planner over
// what this process sees, of which nothing is decided or recorded. It is one for all who ask, and one at a
// time; nobody who decides waits for it.
type stays struct {
	sync.Mutex
	// found by the name of the node, of those that the last look came to.
	found map[string]verdict
	// from is where the next look goes on, if one cannot come to all nodes.
	from    ledger.SearchFrom
	at      time.Time
	goodFor time.Duration
	// looking is closed at the end of the look that is being taken; nil: none is.
	looking chan struct{}
}

// verdict on a node: why it stays, or that the next command would take it.
type verdict struct {
	why  string
	toGo bool
}

// Look has Now say why nodes stay. It waits a moment for that; if it takes longer, a later Now says so.
func (v *View) Look(ctx context.Context) {
	ended := v.look()
	if ended == nil {
		return
	}
	wait := time.NewTimer(lookWait)
	defer wait.Stop()
	select {
	case <-ended:
	case <-wait.C:
	case <-ctx.Done():
	}
}

// look begins one if it is time for that. What it returns is closed when it has ended; nil: there is nothing
// to wait for, since one is not due, or somebody else waits for it and what the one before found is at hand.
func (v *View) look() <-chan struct{} {
	x := &v.stays
	x.Lock()
	defer x.Unlock()
	began, known := v.cfg.Now(), !x.at.IsZero()
	switch {
	case x.looking != nil && !known:
		return x.looking
	case x.looking != nil, known && began.Sub(x.at).Abs() < x.goodFor:
		return nil
	}
	ended := make(chan struct{})
	x.looking = ended
	last, from := x.found, x.from
	go func() {
		defer close(ended)
		var found map[string]verdict // none while there is nothing to see
		if s, err := v.snapshot(); err == nil {
			found, from = verdicts(s, from, last)
		}
		x.Lock()
		x.found, x.from, x.at, x.looking = found, from, v.cfg.Now(), nil
		x.goodFor = min(max(lookFresh, shareOfLook*x.at.Sub(began)), lookFreshMost)
		x.Unlock()
		v.mu.Lock()
		defer v.mu.Unlock()
		v.made = nil // the next Now tells it
	}()
	return ended
}

// verdicts on all nodes, by name, and where the next look goes on. Nodes that this one did not come to keep
// what the last one found. There are none if the planner fails: something in the cluster is then what no API
// server would have taken, and the disruptor says so.
func verdicts(s *planner.Snapshot, from ledger.SearchFrom, last map[string]verdict) (found map[string]verdict, next ledger.SearchFrom) {
	defer func() {
		if recover() != nil {
			found, next = nil, ledger.SearchFrom{}
		}
	}()
	list, report := disrupt.PlansFrom(s, from)
	found = map[string]verdict{}
	for i := range report.Nodes {
		n := &report.Nodes[i]
		known := last[n.Node]
		switch {
		case n.Node == "": // its state says enough
		case n.Blocked != nil && n.Blocked.Cause != disrupt.CauseLeft:
			found[n.Node] = verdict{why: n.Reasons()[0]}
		case known.why != "" && (n.Blocked != nil || len(list) > 0): // a pass ends with the first method that takes something
			found[n.Node] = known
		}
	}
	goes := verdict{toGo: true}
	if s.Ledger.Stop() != ledger.StopNone {
		goes = verdict{why: "it would go, but that is stopped"}
	}
	for _, d := range list {
		for _, c := range taken(d) {
			found[c.Node] = goes
		}
	}
	return found, report.Next
}

// taken are the nodes of a decision of the planner.
func taken(d *planner.Decision) []ledger.Candidate {
	switch p := d.Payload.(type) {
	case *ledger.CommandStarted:
		return p.Candidates
	case *ledger.CommandProposed:
		return p.Command.Candidates
	}
	return nil
}

// tell says of the nodes that are ready why they stay, as of when. Of others their state says enough.
func (x *stays) tell(now *Now) {
	x.Lock()
	defer x.Unlock()
	if len(x.found) > 0 {
		now.StaysAsOf = x.at.UTC()
	}
	for i := range now.Nodes {
		if n := &now.Nodes[i]; n.State == StateReady {
			n.Stays, n.ToGo = x.found[n.Name].why, x.found[n.Name].toGo
		}
	}
}
