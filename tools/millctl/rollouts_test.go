package main

import (
	"strings"
	"testing"
	"time"

	"millwright/planner"
	"millwright/planner/ledger"
	"millwright/store/audit"
	"millwright/store/audit/orders"
	"millwright/store/audit/overview"
	"millwright/store/memlog"
)

// A roll-out that has halted is listed with its failure, and is resumed once; others cannot be resumed.
// Changes that others make to the NodePool meanwhile do not get in the way.
func TestResumingARollout(t *testing.T) {
	log := memlog.New("test")
	add := func(kind ledger.Kind, payload any, advances ...string) uint64 {
		t.Helper()
		d, err := audit.DecisionDraft(planner.Basis{Now: time.Now()}, planner.Decision{Kind: kind, Payload: payload, Advances: advances})
		if err != nil {
			t.Fatal(err)
		}
		d.Service, d.Mode, d.Time = ledger.ServiceDisruptor, string(ledger.ModeActive), time.Now()
		rec, err := log.Append(t.Context(), d)
		if err != nil {
			t.Fatal(err)
		}
		return rec.Seq
	}
	start := func() string {
		return ledger.CommandID(log.ID(), add(ledger.KindCommandStarted, &ledger.CommandStarted{Reason: "Drifted", Wave: &ledger.Wave{Target: "t", Number: 1, Nodes: 1},
			Candidates: []ledger.Candidate{{Node: "n", Claim: "c", NodePool: "p"}}}))
	}
	resume := func() error {
		_, err := orders.ResumeRollout(t.Context(), &racing{Log: log, before: func() {
			add(ledger.KindAlarmRaised, &ledger.AlarmRaised{Reason: "r"}, ledger.PoolAggregate("p"))
		}}, ledger.RolloutResumed{NodePool: "p", By: "ann", Why: "fixed"}, time.Now())
		return err
	}
	lines := func() []overview.RolloutLine {
		l, err := currentLedger(t.Context(), log)
		if err != nil {
			t.Fatal(err)
		}
		return overview.Rollouts(l)
	}
	add(ledger.KindCommandSucceeded, &ledger.CommandSucceeded{ID: start()})
	if err := resume(); err == nil || !strings.Contains(err.Error(), "no roll-out of NodePool p has halted") {
		t.Errorf("resuming one that goes on: %v", err)
	}
	add(ledger.KindCommandAbandoned, &ledger.CommandRolledBack{ID: start(), Reason: "command reached timeout", HaltsRollout: true})
	var out strings.Builder
	if err := printRollouts(&out, lines(), true); err != nil || !strings.Contains(out.String(), "command reached timeout") {
		t.Errorf("printed %q, %v", out.String(), err)
	}
	if list := lines(); len(list) != 1 || list[0].NodePool != "p" || list[0].Replaced != 1 || list[0].Halted == nil {
		t.Errorf("listed %+v", list)
	}
	if err := resume(); err != nil {
		t.Error(err)
	}
	if list := lines(); len(list) != 0 {
		t.Errorf("listed after it was resumed: %+v", list)
	}
	if err := resume(); err == nil {
		t.Error("resumed twice")
	}
}
