package api

import (
	"context"
	"fmt"
	"strings"
	"time"
	"unicode"

	"millwright/planner/ledger"
	"millwright/store/audit/orders"
)

const (
	// reasonMax bounds why an order was given, in bytes.
	reasonMax = 1000
	// rejectedFor is how long the nodes of a rejected command are not proposed again, unless the order says
	// otherwise; rejectedMax the longest it may say.
	rejectedFor = 24 * time.Hour
	rejectedMax = 365 * 24 * time.Hour
	actTimeout  = 15 * time.Second
)

func (a *API) approve(ctx context.Context, q *question) (any, error) {
	return a.Answer(ctx, ledger.ProposalAnswered{ID: q.path("id"), Approved: true, By: q.who.Name, Why: q.order.Reason})
}

func (a *API) reject(ctx context.Context, q *question) (any, error) {
	life := rejectedFor
	if s := q.order.For; s != "" {
		d, err := time.ParseDuration(s)
		if err != nil || d <= 0 || d > rejectedMax {
			return nil, bad("for %q: must be a span such as 24h, at most %s", s, rejectedMax)
		}
		life = d
	}
	answer := orders.Rejection(q.path("id"), life, a.cfg.Now())
	answer.By, answer.Why = q.who.Name, q.order.Reason
	return a.Answer(ctx, answer)
}

// Answer records an answer to a proposed command.
func (a *API) Answer(ctx context.Context, answer ledger.ProposalAnswered) (*Recorded, error) {
	why, err := reason(answer.Why)
	if err != nil {
		return nil, err
	}
	answer.Why = why
	// Who gave the order may go away; what was begun is brought to its end.
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), actTimeout)
	defer cancel()
	rec, err := orders.Answer(ctx, a.cfg.Log, answer, a.cfg.Now())
	if err != nil {
		return nil, err
	}
	word := "rejected"
	if answer.Approved {
		word = "approved"
	}
	return &Recorded{Record: rec.Seq, By: answer.By, Text: fmt.Sprintf("%s %s (record %d)", word, answer.ID, rec.Seq)}, nil
}

func (a *API) stop(ctx context.Context, q *question) (any, error) {
	level := ledger.Stop(q.order.Level)
	if level == ledger.StopNone || !level.Known() {
		return nil, bad("level %q: must be voluntary or all", q.order.Level)
	}
	return a.SetStop(ctx, ledger.ControlChanged{Stop: level, By: q.who.Name, Why: q.order.Reason})
}

func (a *API) resume(ctx context.Context, q *question) (any, error) {
	return a.SetStop(ctx, ledger.ControlChanged{Stop: ledger.StopNone, By: q.who.Name, Why: q.order.Reason})
}

// SetStop records that services are to stop, or to go on.
func (a *API) SetStop(ctx context.Context, want ledger.ControlChanged) (*Recorded, error) {
	why, err := reason(want.Why)
	if err != nil {
		return nil, err
	}
	want.Why = why
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), actTimeout)
	defer cancel()
	before, rec, err := orders.SetStop(ctx, a.cfg.Log, want, a.cfg.Now())
	if err != nil {
		return nil, err
	}
	out := &Recorded{Record: rec.Seq, By: want.By, Text: fmt.Sprintf("stopped: %s (record %d)", want.Stop, rec.Seq)}
	switch {
	case rec.Seq == 0:
		out.Text = "not stopped: nothing to resume"
	case want.Stop == ledger.StopNone:
		out.Text = fmt.Sprintf("resumed (record %d); it was stopped: %s by %s: %s", rec.Seq, before.Stop, before.By, before.Why)
	}
	return out, nil
}

// resumeRollout records that a halted roll-out begins anew.
func (a *API) resumeRollout(ctx context.Context, q *question) (any, error) {
	why, err := reason(q.order.Reason)
	if err != nil {
		return nil, err
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), actTimeout)
	defer cancel()
	pool := q.path("id")
	rec, err := orders.ResumeRollout(ctx, a.cfg.Log, ledger.RolloutResumed{NodePool: pool, By: q.who.Name, Why: why}, a.cfg.Now())
	if err != nil {
		return nil, err
	}
	return &Recorded{Record: rec.Seq, By: q.who.Name, Text: fmt.Sprintf("resumed the roll-out of NodePool %s (record %d)", pool, rec.Seq)}, nil
}

// reason is why an order was given, in one line.
func reason(s string) (string, error) {
	s = strings.Join(strings.FieldsFunc(s, func(r rune) bool { return unicode.IsSpace(r) || unicode.IsControl(r) }), " ")
	switch {
	case s == "":
		return "", bad("reason is missing: say why, for the record")
	case len(s) > reasonMax:
		return "", bad("reason is %d bytes long, at most %d are kept", len(s), reasonMax)
	}
	return strings.ToValidUTF8(s, "�"), nil
}
