package whatif

import (
	"cmp"
	"context"
	"fmt"
	"runtime"
	"slices"
	"sync"
	"time"

	"golang.org/x/sync/errgroup"

	"millwright/planner"
	"millwright/planner/ledger"
	"millwright/store/audit"
)

// Request says what to plan again.
type Request struct {
	Range  audit.Range
	Change Change
	// Workers plan at a time; 0: as many as there are processors.
	Workers int
	// RowsMax bounds the Decisions of the Report, of which those are left out that did not change, then the
	// latest; 0: RowsMaxDefault. The sums are of all.
	RowsMax int
}

// RowsMaxDefault is for requests that name no bound.
const RowsMaxDefault = 10_000

// Difference of a decision from what is on record.
type Difference string

// Differences. Other: the same kind of decision with another content; More and Fewer: the pass of a command
// came to more or fewer commands, or nothing at all.
const (
	Same  Difference = "same"
	Other Difference = "other"
	More  Difference = "more"
	Fewer Difference = "fewer"
	None  Difference = "none"
)

// Decision is one that was planned again: a record, or the commands of one pass.
type Decision struct {
	// Records that it is of, in order.
	Records []uint64    `json:"records"`
	Time    time.Time   `json:"time"`
	Service string      `json:"service"`
	Mode    ledger.Mode `json:"mode"`
	// NodePools that it had to do with, sorted.
	NodePools  []string   `json:"nodePools,omitempty"`
	Difference Difference `json:"difference"`
	Was        Outcome    `json:"was"`
	Instead    Outcome    `json:"instead"`
	// Detail names the first field that differs, if the rest does not say it.
	Detail string `json:"detail,omitempty"`
}

// Report of a Request.
type Report struct {
	// From and To are the first and last record of a decision that was planned again; 0: there is none.
	From uint64 `json:"from"`
	To   uint64 `json:"to"`
	// Planned counts the records that were planned again, Changed those of which that came out otherwise.
	Planned int `json:"planned"`
	Changed int `json:"changed"`
	// Was and Instead are sums over all decisions; Provisioning and Disruption are of these services alone.
	Was          Outcome `json:"was"`
	Instead      Outcome `json:"instead"`
	Provisioning Pair    `json:"provisioning"`
	Disruption   Pair    `json:"disruption"`
	// Decisions by their first record, first.
	Decisions []Decision `json:"decisions"`
	// Omitted counts decisions that are left out of Decisions.
	Omitted int `json:"omitted,omitempty"`
	// NotPlanned are decisions that could not be planned again, and why.
	NotPlanned []Span `json:"notPlanned,omitempty"`
}

// Pair of sums.
type Pair struct {
	Was     Outcome `json:"was"`
	Instead Outcome `json:"instead"`
}

// Span is audit.Span as it is sent.
type Span struct {
	From   uint64 `json:"from"`
	To     uint64 `json:"to"`
	Count  int    `json:"count"`
	Reason string `json:"reason"`
}

// Run plans the decisions of a range again. It returns an error if the change is refused, or log or stream
// cannot be read.
func Run(ctx context.Context, log audit.Log, stream audit.Stream, r Request) (*Report, error) {
	if err := r.Change.Check(); err != nil {
		return nil, fmt.Errorf("replay with a change: %w", err)
	}
	workers := cmp.Or(r.Workers, runtime.GOMAXPROCS(0))
	run := &run{change: &r.Change}
	group, ctx := errgroup.WithContext(ctx)
	group.SetLimit(workers) // Go blocks, so that no more Snapshots are held than are being planned on
	walked, err := audit.Walk(ctx, log, stream, r.Range, func(v audit.Visit) {
		run.add(v, func(j job) {
			if ctx.Err() == nil {
				group.Go(func() error { run.plan(j); return nil })
			}
		})
	})
	run.flush(func(j job) { group.Go(func() error { run.plan(j); return nil }) })
	if waited := group.Wait(); err == nil {
		err = waited
	}
	if err != nil {
		return nil, fmt.Errorf("replay with a change: %w", err)
	}
	return run.report(walked, cmp.Or(r.RowsMax, RowsMaxDefault)), nil
}

// job is a decision, or the commands of one pass.
type job struct {
	visits []audit.Visit
}

// run is one Request being answered.
type run struct {
	change *Change
	// open is the pass whose commands are coming; nil for none.
	open *job

	mu     sync.Mutex
	done   []Decision
	failed []Span
}

// add starts a job, unless more of the same pass may come.
func (r *run) add(v audit.Visit, start func(job)) {
	from, pass := audit.PassOf(v.Entry)
	if r.open != nil {
		first := r.open.visits[0]
		begun, _ := audit.PassOf(first.Entry)
		if pass && begun == from && first.Snapshot.Basis() == v.Snapshot.Basis() {
			r.open.visits = append(r.open.visits, v)
			return
		}
		r.flush(start)
	}
	if r.open = (&job{[]audit.Visit{v}}); !pass {
		r.flush(start)
	}
}

func (r *run) flush(start func(job)) {
	if r.open != nil {
		start(*r.open)
		r.open = nil
	}
}

// plan a job again, on Snapshots of its own.
func (r *run) plan(j job) {
	first := j.visits[0]
	// No API server has validated the change: an object that a planner fails on must end nothing else.
	defer func() {
		if p := recover(); p != nil {
			r.mu.Lock()
			defer r.mu.Unlock()
			r.failed = append(r.failed, Span{From: first.Seq, To: j.visits[len(j.visits)-1].Seq, Count: len(j.visits), Reason: fmt.Sprintf("the planner failed on the change: %v", p)})
		}
	}()
	var was []decided
	d := Decision{Time: first.Time.UTC(), Service: first.Service, Mode: first.Mode}
	for _, v := range j.visits {
		was = append(was, decided{v.Kind, v.Payload})
		d.Records = append(d.Records, v.Seq)
		d.NodePools = append(d.NodePools, poolsOf(v.Subjects)...)
	}
	slices.Sort(d.NodePools)
	d.NodePools = slices.Compact(d.NodePools)
	list, ok := audit.Again(first.Entry, r.change.Over(first.Snapshot), r.change.Over(first.Search))
	if !ok {
		return
	}
	instead := plannedOnes(list)
	if _, pass := audit.PassOf(first.Entry); pass && len(instead) > len(was) && len(was) < r.recorded(first) {
		// The service ended the pass early: an append was refused, or it lost its leadership.
		instead = instead[:len(was)]
	}
	d.Was, d.Instead = outcomeOf(was, first.Snapshot), outcomeOf(instead, first.Snapshot)
	d.Difference, d.Detail = compare(was, instead)
	r.mu.Lock()
	defer r.mu.Unlock()
	r.done = append(r.done, d)
}

// recorded is how many commands the pass came to without the change.
func (r *run) recorded(v audit.Visit) int {
	list, _ := audit.Again(v.Entry, planner.SnapshotAt(v.Snapshot.World, v.Snapshot.Ledger, v.Snapshot.Now), nil)
	return len(list)
}

func poolsOf(subjects []string) (pools []string) {
	for _, s := range subjects {
		if len(s) > 5 && s[:5] == "pool/" {
			pools = append(pools, s[5:])
		}
	}
	return pools
}

func compare(was, instead []decided) (Difference, string) {
	switch {
	case len(instead) == 0:
		return None, ""
	case len(instead) > len(was):
		return More, ""
	case len(instead) < len(was):
		return Fewer, ""
	}
	for i := range was {
		if ledger.PayloadDigest(was[i].kind, was[i].payload) != ledger.PayloadDigest(instead[i].kind, instead[i].payload) {
			if was[i].kind != instead[i].kind {
				return Other, "decides " + instead[i].kind.String()
			}
			return Other, audit.FirstDifference(was[i].payload, instead[i].payload)
		}
	}
	return Same, ""
}

// report sums up what was planned.
func (r *run) report(walked audit.Report, rowsMax int) *Report {
	slices.SortFunc(r.done, func(a, b Decision) int { return cmp.Compare(a.Records[0], b.Records[0]) })
	out := &Report{Decisions: []Decision{}}
	for i := range r.done {
		d := &r.done[i]
		if out.From == 0 {
			out.From = d.Records[0]
		}
		out.To = max(out.To, d.Records[len(d.Records)-1])
		out.Planned += len(d.Records)
		out.sum(d)
	}
	rows := r.done
	if len(rows) > rowsMax {
		rows = slices.DeleteFunc(slices.Clone(rows), func(d Decision) bool { return d.Difference == Same })
	}
	rows = rows[:min(len(rows), rowsMax)]
	out.Decisions, out.Omitted = append(out.Decisions, rows...), len(r.done)-len(rows)
	for _, s := range walked.NotReplayable {
		out.NotPlanned = append(out.NotPlanned, Span(s))
	}
	slices.SortFunc(r.failed, func(a, b Span) int { return cmp.Compare(a.From, b.From) })
	out.NotPlanned = append(out.NotPlanned, r.failed...)
	return out
}

func (r *Report) sum(d *Decision) {
	if d.Difference != Same {
		r.Changed += len(d.Records)
	}
	r.Was.add(d.Was)
	r.Instead.add(d.Instead)
	p := &r.Disruption
	if d.Service == ledger.ServiceProvisioner {
		p = &r.Provisioning
	}
	p.Was.add(d.Was)
	p.Instead.add(d.Instead)
}
