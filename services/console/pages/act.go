package pages

import (
	"context"
	"fmt"
	"time"

	"millwright/planner/ledger"
	"millwright/services/console/view"
	"millwright/store/audit/orders"
	"millwright/store/audit/overview"
)

// rejectedFor is how long the nodes of a command that is rejected here are not proposed again.
const rejectedFor = 24 * time.Hour

// commandsPage has what runs and waits, and what is stopped.
type commandsPage struct {
	Proposed, Running []overview.CommandLine
	Stop              *overview.StopStatus
	Reject            time.Duration
}

func (p *Pages) commands(ctx context.Context, _ *request) (string, any, error) {
	list, err := p.cfg.View.Commands()
	if err != nil {
		return "", nil, err
	}
	st, err := p.cfg.View.Status(ctx)
	if err != nil {
		return "", nil, err
	}
	x := commandsPage{Stop: st.Stop, Reject: rejectedFor}
	for _, c := range list {
		if c.State == string(ledger.ProposalOpen) {
			x.Proposed = append(x.Proposed, c)
		} else {
			x.Running = append(x.Running, c)
		}
	}
	return "Commands", x, nil
}

// answer approves or rejects a proposed command.
func (p *Pages) answer(r *request) (said, next string, err error) {
	id := r.PathValue("id")
	a := ledger.ProposalAnswered{ID: id, Approved: true}
	switch r.PathValue("answer") {
	case "approve":
	case "reject":
		a = orders.Rejection(id, rejectedFor, p.cfg.Now())
	default:
		return "", "", fmt.Errorf("%w: one approves or rejects", view.ErrNotFound)
	}
	a.By, a.Why = r.who.Name, r.PostFormValue("reason")
	done, err := p.cfg.API.Answer(r.Context(), a)
	if err != nil {
		return "", "", err
	}
	return done.Text, "/commands", nil
}

// control stops and resumes.
func (p *Pages) control(r *request) (said, next string, err error) {
	want := ledger.ControlChanged{By: r.who.Name, Why: r.PostFormValue("reason")}
	switch level := r.PathValue("level"); level {
	case string(ledger.StopVoluntary), string(ledger.StopAll):
		want.Stop = ledger.Stop(level)
	case "resume":
	default:
		return "", "", fmt.Errorf("%w: one stops what is voluntary, or all, or resumes", view.ErrNotFound)
	}
	done, err := p.cfg.API.SetStop(r.Context(), want)
	if err != nil {
		return "", "", err
	}
	return done.Text, "/commands", nil
}
