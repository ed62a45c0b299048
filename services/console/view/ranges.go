package view

import (
	"context"
	"fmt"
	"time"

	"millwright/store/audit"
	"millwright/store/audit/plan"
	"millwright/store/audit/whatif"
)

const (
	// replayStep is how many records are taken again before their memory is let go; changedMax how many a
	// range with a change may have.
	replayStep, changedMax = 5000, 20_000
	// divergencesMax bounds those that are told one by one, rowsMax the decisions of a range with a change.
	divergencesMax, rowsMax = 1000, 2000
)

// RangeRequest says which decisions to take again, and what would have been different. Without From, To,
// Since and Until these are all.
type RangeRequest struct {
	From uint64 `json:"from,omitempty"`
	To   uint64 `json:"to,omitempty"`
	// Since and Until are spans before now, such as 2h, or times, in place of From and To.
	Since string `json:"since,omitempty"`
	Until string `json:"until,omitempty"`
	// Manifests and Prices are as of PlanRequest with a Record; Options are planner options as NAME=VALUE,
	// such as node-cost=0.02. With any of them it is said what would have been decided instead.
	Manifests string   `json:"manifests,omitempty"`
	Prices    string   `json:"prices,omitempty"`
	Options   []string `json:"options,omitempty"`
}

// RangeReplayed is what came of the decisions of a range.
type RangeReplayed struct {
	From uint64 `json:"from"`
	To   uint64 `json:"to"`
	// Planned, Derived, Explained and Skipped count decisions as audit.Report does, Diverged those that came
	// out otherwise, of which Divergences are the first.
	Planned     int          `json:"planned"`
	Derived     int          `json:"derived"`
	Explained   int          `json:"explained"`
	Skipped     int          `json:"skipped"`
	Diverged    int          `json:"diverged"`
	Divergences []Divergence `json:"divergences"`
	// NotReplayable says which could not be taken again, and why; a span with Count 0 was not read.
	NotReplayable []whatif.Span `json:"notReplayable"`
	// Instead is what would have been decided; it comes without the counts.
	Instead *whatif.Report `json:"instead,omitempty"`
	// Seconds that it took.
	Seconds float64 `json:"seconds"`
}

// Divergence is a decision that comes out otherwise.
type Divergence struct {
	Seq     uint64 `json:"seq"`
	Kind    string `json:"kind"`
	Service string `json:"service"`
	Detail  string `json:"detail"`
}

// ReplayRange takes the decisions of a range again, one at a time. Errors are as of Plan.
func (v *View) ReplayRange(ctx context.Context, who string, q RangeRequest, tell Tell) (*RangeReplayed, error) {
	change, changes, err := q.change()
	if err != nil {
		return nil, err
	}
	began := v.cfg.Now()
	return wholly(ctx, v, who, ReplayTimeMax, func(ctx context.Context) (*RangeReplayed, error) {
		x := &RangeReplayed{Divergences: []Divergence{}, NotReplayable: []whatif.Span{}}
		var err error
		if x.From, x.To, err = v.recordsOf(ctx, &q); err != nil {
			return nil, err
		}
		p := newPace(ctx, tell, x.To)
		p.at.Record = x.From
		if err := tell(EventProgress, p.at); err != nil {
			return nil, err
		}
		if changes {
			err = v.replayChanged(ctx, x, change, p)
		} else {
			err = v.replaySteps(ctx, x, p)
		}
		x.Seconds = v.cfg.Now().Sub(began).Seconds()
		return x, err
	})
}

// replayChanged plans a range again with something else.
func (v *View) replayChanged(ctx context.Context, x *RangeReplayed, change whatif.Change, p *pace) (err error) {
	if n := x.To - x.From + 1; n > changedMax {
		return fmt.Errorf("%w: these are %d records; %d at a time are planned with something else", ErrQuestion, n, changedMax)
	}
	x.Instead, err = whatif.Run(ctx, pacedLog{v.cfg.Log, p}, p.stream(v.cfg.Stream), whatif.Request{
		Range: audit.Range{From: x.From, To: x.To}, Change: change, Workers: 1, RowsMax: rowsMax})
	return err
}

// replaySteps takes the decisions of a range again, some records at a time.
func (v *View) replaySteps(ctx context.Context, x *RangeReplayed, p *pace) error {
	for from := x.From; from <= x.To; from += replayStep {
		r := audit.Range{From: from, To: min(x.To, from+replayStep-1)}
		p.at.Record = from
		report, err := audit.ReplayBeside(ctx, pacedLog{v.cfg.Log, p}, p.stream(v.cfg.Stream), r)
		if err != nil {
			return fmt.Errorf("take records %d to %d again: %w", r.From, r.To, err)
		}
		x.Add(report, from > x.From)
	}
	return nil
}

// Add what came of the next records; more: of others came something before. Which records before a range were
// not read is said once.
func (x *RangeReplayed) Add(r audit.Report, more bool) {
	x.Planned, x.Derived, x.Explained, x.Skipped = x.Planned+r.Planned, x.Derived+r.Derived, x.Explained+r.Explained, x.Skipped+r.Skipped()
	x.Diverged += len(r.Divergences)
	for _, d := range r.Divergences {
		if len(x.Divergences) < divergencesMax {
			x.Divergences = append(x.Divergences, Divergence{d.Seq, d.Kind.String(), d.Service, d.Detail})
		}
	}
	for _, s := range r.NotReplayable {
		n := len(x.NotReplayable)
		switch {
		case s.Count == 0 && more:
		case n > 0 && s.Count > 0 && x.NotReplayable[n-1].Count > 0 && x.NotReplayable[n-1].Reason == s.Reason:
			x.NotReplayable[n-1].To, x.NotReplayable[n-1].Count = s.To, x.NotReplayable[n-1].Count+s.Count
		case n < divergencesMax:
			x.NotReplayable = append(x.NotReplayable, whatif.Span(s))
		}
	}
}

// change that is asked for; false: none is.
func (q *RangeRequest) change() (change whatif.Change, any bool, err error) {
	if n := len(q.Manifests) + len(q.Prices); n > PlanInputMax {
		return change, false, fmt.Errorf("%w: it is %d bytes long, at most %d are planned for", ErrQuestion, n, PlanInputMax)
	}
	if change, err = readChange(q.Manifests, q.Prices); err != nil {
		return change, false, err
	}
	for _, o := range q.Options {
		if err := change.SetOption(o); err != nil {
			return change, false, fmt.Errorf("%w: %w", ErrQuestion, err)
		}
	}
	return change, q.Manifests != "" || q.Prices != "" || len(q.Options) > 0, nil
}

// readChange reads what is laid over Snapshots.
func readChange(manifests, prices string) (change whatif.Change, err error) {
	if manifests != "" {
		change.Objects, err = plan.Objects(plan.Text("manifests", manifests))
	}
	if err == nil && prices != "" {
		change.Prices, err = plan.ReadPrices(plan.Text("prices", prices))
	}
	if err == nil {
		err = change.Check()
	}
	if err == nil {
		err = checkReplicas(change.Objects)
	}
	if err != nil {
		return change, fmt.Errorf("%w: %w", ErrQuestion, err)
	}
	return change, nil
}

// recordsOf are the first and the last record of the range.
func (v *View) recordsOf(ctx context.Context, q *RangeRequest) (from, to uint64, err error) {
	now := v.cfg.Now()
	since, err := moment("since", q.Since, now)
	if err != nil {
		return 0, 0, err
	}
	until, err := moment("until", q.Until, now)
	if err != nil {
		return 0, 0, err
	}
	if q.From != 0 && q.Since != "" || q.To != 0 && q.Until != "" {
		return 0, 0, fmt.Errorf("%w: from and since, to and until say the same", ErrQuestion)
	}
	head, err := v.cfg.Log.Head(ctx)
	if err != nil {
		return 0, 0, fmt.Errorf("read the log's head: %w", err)
	}
	at := func(record uint64, t time.Time) (uint64, error) {
		if t.IsZero() {
			return record, nil
		}
		return audit.FirstSince(ctx, v.cfg.Log, head.Seq, t)
	}
	if from, err = at(max(q.From, 1), since); err != nil {
		return 0, 0, err
	}
	if to, err = at(q.To, until); err != nil {
		return 0, 0, err
	}
	if !until.IsZero() {
		to--
	}
	if to == 0 && until.IsZero() || to > head.Seq {
		to = head.Seq
	}
	if from > to {
		return 0, 0, fmt.Errorf("%w: no record is in that span", ErrQuestion)
	}
	return from, to, nil
}
