package main

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	"millwright/planner"
	"millwright/planner/ledger"
	"millwright/store"
	"millwright/store/audit"
	"millwright/store/audit/orders"
	"millwright/store/audit/overview"
	"millwright/store/memlog"
)

// proposal is a log with one proposed command, and its id.
func proposal(t *testing.T) (*memlog.Log, string) {
	t.Helper()
	log := memlog.New("test")
	d, err := audit.DecisionDraft(planner.Basis{Now: time.Now()}, planner.Decision{Kind: ledger.KindCommandProposed, Payload: &ledger.CommandProposed{
		Command: ledger.CommandStarted{Reason: "Empty", Method: "emptiness", Candidates: []ledger.Candidate{{Node: "n", Claim: "c", NodePool: "p", Price: 96_000}}, PriceBefore: 96_000},
		Expires: time.Now().Add(time.Hour), Policies: []string{"ask"}}})
	if err != nil {
		t.Fatal(err)
	}
	d.Service, d.Mode, d.Time = ledger.ServiceDisruptor, string(ledger.ModeActive), time.Now()
	rec, err := log.Append(t.Context(), d)
	if err != nil {
		t.Fatal(err)
	}
	return log, ledger.CommandID(log.ID(), rec.Seq)
}

func TestAnswers(t *testing.T) {
	log, id := proposal(t)
	l, err := currentLedger(t.Context(), log)
	if err != nil {
		t.Fatal(err)
	}
	var out strings.Builder
	if err := printCommands(&out, overview.Commands(l), false); err != nil || !strings.Contains(out.String(), id) || !strings.Contains(out.String(), "Proposed") || !strings.Contains(out.String(), "$0.096") {
		t.Fatalf("printed %q, %v", out.String(), err)
	}
	if _, err := orders.Answer(t.Context(), log, ledger.ProposalAnswered{ID: "cmd-other", Approved: true, By: "ann", Why: "x"}, time.Now()); err == nil || !strings.Contains(err.Error(), "cmd-other is not proposed") {
		t.Errorf("answering what is not proposed: %v", err)
	}
	if _, err := orders.Answer(t.Context(), log, ledger.ProposalAnswered{ID: id, By: "ann", Why: "not today", Until: time.Now().Add(time.Hour)}, time.Now()); err != nil {
		t.Fatal(err)
	}
	if _, err := orders.Answer(t.Context(), log, ledger.ProposalAnswered{ID: id, Approved: true, By: "bob", Why: "x"}, time.Now()); err == nil || !strings.Contains(err.Error(), "answered already by ann: not today") {
		t.Errorf("a second answer: %v", err)
	}
	l, err = currentLedger(t.Context(), log)
	if err != nil {
		t.Fatal(err)
	}
	if c := overview.Commands(l)[0]; c.State != "Rejected" || c.By != "ann" || c.Why != "not today" {
		t.Errorf("listed %+v", c)
	}
}

// If two operators answer at the same time, the second one is told that it was too late.
func TestTwoAnswersAtATime(t *testing.T) {
	log, id := proposal(t)
	rival := &racing{Log: log, before: func() {
		if _, err := orders.Answer(t.Context(), log, ledger.ProposalAnswered{ID: id, Approved: true, By: "bob", Why: "y"}, time.Now()); err != nil {
			t.Error(err)
		}
	}}
	_, err := orders.Answer(t.Context(), rival, ledger.ProposalAnswered{ID: id, By: "ann", Why: "x", Until: time.Now().Add(time.Hour)}, time.Now())
	if !errors.Is(err, store.ErrConflict) || !strings.Contains(err.Error(), "by someone else meanwhile") {
		t.Errorf("the later one got %v", err)
	}
}

// racing is a log on which another operator is faster once, or whose writer's clock is a month ahead.
type racing struct {
	store.Log
	before func()
	month  bool
}

func (r *racing) Append(ctx context.Context, d store.Draft) (store.Record, error) {
	if f := r.before; f != nil {
		r.before = nil
		f()
	}
	if r.month {
		d.Time = d.Time.Add(30 * 24 * time.Hour)
	}
	return r.Log.Append(ctx, d)
}

// A rejection holds for --for from the time of its record, however wrong the operator's clock is.
func TestARejectionLastsForItsTime(t *testing.T) {
	log, id := proposal(t)
	a := orders.Rejection(id, 48*time.Hour, time.Now())
	a.By, a.Why = "ann", "release week"
	off := &racing{Log: log, month: true}
	if _, err := orders.Answer(t.Context(), off, a, time.Now()); err != nil {
		t.Fatal(err)
	}
	// the next record, by a process whose clock is checked against witnesses
	draft, err := audit.OutcomeDraft(audit.Outcome{Kind: ledger.KindAlarmRaised, Payload: &ledger.AlarmRaised{}})
	if err != nil {
		t.Fatal(err)
	}
	draft.Service, draft.Mode, draft.Time = ledger.ServiceDisruptor, string(ledger.ModeActive), time.Now()
	if _, err := log.Append(t.Context(), draft); err != nil {
		t.Fatal(err)
	}
	l, err := currentLedger(t.Context(), log)
	if err != nil {
		t.Fatal(err)
	}
	if left := time.Until(overview.Commands(l)[0].Until); left < 47*time.Hour || left > 49*time.Hour {
		t.Errorf("the rejection lasts %s, want 48 h", left)
	}
}
