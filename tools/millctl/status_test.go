package main

import (
	"encoding/json"
	"strings"
	"testing"
	"time"

	"millwright/planner/ledger"
	"millwright/store"
	"millwright/store/audit"
	"millwright/store/audit/orders"
	"millwright/store/memlog"
)

func TestStatus(t *testing.T) {
	log := memlog.New("test")
	now := time.Now().Add(time.Hour)
	record := func(at time.Time, kind ledger.Kind, payload any) store.Record {
		t.Helper()
		d, err := audit.OutcomeDraft(audit.Outcome{Kind: kind, Payload: payload})
		if err != nil {
			t.Fatal(err)
		}
		d.Time, d.Service, d.Mode = at, "lifecycle", "active"
		rec, err := log.Append(t.Context(), d)
		if err != nil {
			t.Fatal(err)
		}
		return rec
	}
	record(now.Add(-50*time.Minute), ledger.KindAlarmRaised, &ledger.AlarmRaised{Reason: "orphans_held", Message: "7 of 9"})
	record(now, ledger.KindModeChanged, &ledger.ModeChanged{Service: "disruptor", Mode: ledger.ModeShadow})
	record(now, ledger.KindClaimAdopted, &ledger.ClaimAdopted{Claim: "a", UID: "a", ProviderID: "aws:///z/i-1"})
	record(now, ledger.KindClaimAdopted, &ledger.ClaimAdopted{Claim: "b", UID: "b"})
	record(now, ledger.KindCommandStarted, &ledger.CommandStarted{Reason: "Empty", Candidates: []ledger.Candidate{{Node: "n1", Claim: "a"}}})
	record(now, ledger.KindDrainStarted, &ledger.DrainStarted{Node: "n2", Reason: "Forceful Termination"})
	if _, _, err := orders.SetStop(t.Context(), log, ledger.ControlChanged{Stop: ledger.StopAll, By: "ann", Why: "fire"}, time.Now()); err != nil {
		t.Fatal(err)
	}
	elector := memlog.NewElector(log)
	lead, _ := elector.TryCampaign(store.Candidacy{Service: "lifecycle", Identity: "pod-1", Info: map[string]string{"version": "1.2"}})
	if err := lead.Report(t.Context(), map[string]string{"folded": "5", "position": "77", "stop": "all",
		"at": now.UTC().Format(time.RFC3339Nano), "asOf": now.Add(-2 * time.Second).UTC().Format(time.RFC3339Nano)}); err != nil {
		t.Fatal(err)
	}
	s := &session{log: log, elector: elector, target: &target{cluster: "test"}}
	st, err := s.status(t.Context(), now.Add(time.Second))
	if err != nil {
		t.Fatal(err)
	}
	var text strings.Builder
	if err := st.print(&text, false); err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{
		"8 records", "STOPPED: all by ann since ", "(record 8): fire", "open claims: 2 (1 Created, 1 Launched), 0 of them going",
		"Started for 1s: Empty n1", "n2 for 1s: tier 0 (Forceful Termination)", "record 2, 50m1s ago: orphans_held: 7 of 9", "stream: missing --nats-url",
	} {
		if !strings.Contains(text.String(), want) {
			t.Errorf("no %q in\n%s", want, text.String())
		}
	}
	rows := map[string]string{}
	for line := range strings.Lines(text.String()) {
		if f := strings.Fields(line); len(f) > 1 {
			rows[f[0]] = strings.Join(f[1:], " ")
		}
	}
	if got := rows["lifecycle"]; got != "pod-1 1.2 active all 3 2s old 77 1s ago" {
		t.Errorf("lifecycle: %q", got)
	}
	if got := rows["disruptor"]; got != "none - shadow" {
		t.Errorf("disruptor: %q", got)
	}
	var back status
	b, err := json.Marshal(st)
	if err == nil {
		err = json.Unmarshal(b, &back)
	}
	if err != nil || back.Stop.By != "ann" || back.Services[4].Lag != 3 || back.Claims[ledger.ClaimLaunched] != 1 {
		t.Errorf("JSON %s, %v", b, err)
	}
	s.offline = true
	if st, err = s.status(t.Context(), now); err != nil || st.Services[4].Identity != "" {
		t.Errorf("of a copy: %+v, %v: nobody leads", st, err)
	}
}
