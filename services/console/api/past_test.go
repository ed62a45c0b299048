package api

import (
	"encoding/csv"
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/rs/zerolog"

	"millwright/planner/ledger"
	"millwright/services/console/consoletest"
	"millwright/services/console/history"
)

// What a command saved is told as JSON and as a table, in which a name is never a formula.
func TestSavingsAndTimeline(t *testing.T) {
	c := consoletest.New(t, "test")
	rec := c.Outcome(ledger.KindCommandStarted, &ledger.CommandStarted{Reason: "Empty", PriceBefore: 96_001, Candidates: []ledger.Candidate{
		{Node: "a", Claim: "a-claim", NodePool: "=1+1", Price: 96_001, Pods: []ledger.PodRef{{Namespace: "shop, \"web\"", Name: "x"}}}}})
	c.Outcome(ledger.KindCommandSucceeded, &ledger.CommandSucceeded{ID: ledger.CommandID(c.Log.ID(), rec.Seq)})
	c.Outcome(ledger.KindInstanceTerminated, &ledger.InstanceTerminated{Claim: "a-claim"})
	planned := c.Outcome(ledger.KindProvisioningPlanned, &ledger.ProvisioningPlanned{Claims: []ledger.PlannedClaim{{NodePool: "-spot"}}})
	c.Outcome(ledger.KindLaunched, &ledger.Launched{Claim: ledger.ClaimName(c.Log.ID(), "-spot", planned.Seq, 0), CapacityType: "spot", Price: 30_000, OnDemandPrice: 96_000})
	c.Outcome(ledger.KindSharesObserved, &ledger.SharesObserved{Label: "team", Hour: c.Clock.Now().Truncate(time.Hour), Spot: []ledger.SpotShare{{NodePool: "-spot", Namespace: "web", Team: "pay", OnDemand: 2, Cost: 1}},
		Moved: []ledger.MovedPods{{Command: ledger.CommandID(c.Log.ID(), rec.Seq), Claim: "a-claim", Teams: map[string]int{"pay": 1}}}})
	c.Clock.Advance(time.Second)
	c.Read()
	mux := http.NewServeMux()
	New(Config{View: c.View, Index: c.Index, Log: c.Log, Reviewer: consoletest.Everybody(), Now: c.Clock.Now, Logger: zerolog.Nop(), Done: make(chan struct{})}).Register(mux)
	r := &rig{T: t, Server: httptest.NewServer(mux)}
	t.Cleanup(r.Server.Close)

	status, header, body := r.ask("viewer", http.MethodGet, "/savings.csv", "")
	rows, err := csv.NewReader(strings.NewReader(string(body))).ReadAll()
	if status != http.StatusOK || err != nil || header.Get("Content-Type") != "text/csv; charset=utf-8" {
		t.Fatal(status, err, header)
	}
	if d := cmp.Diff([][]string{{"nodepool", "namespace", "commands", "nodes", "evictions", "promised_usd_per_hour", "realized_usd_per_hour"},
		{"'=1+1", `shop, "web"`, "1", "1", "1", "0.096001", "0.096001"}}, rows); d != "" {
		t.Error(d)
	}
	status, header, body = r.ask("viewer", http.MethodGet, "/spot-savings.csv", "")
	rows, err = csv.NewReader(strings.NewReader(string(body))).ReadAll()
	if status != http.StatusOK || err != nil || header.Get("Content-Type") != "text/csv; charset=utf-8" {
		t.Fatal(status, err, header)
	}
	if d := cmp.Diff([][]string{{"nodepool", "instances", "unpriced", "running", "saved_usd_per_hour", "on_demand_usd", "saved_usd"},
		{"'-spot", "1", "0", "1", "0.066000", rows[1][5], rows[1][6]}}, rows); d != "" {
		t.Error(d)
	}
	for path, want := range map[string]string{
		"/savings.csv?by=team":           "team,commands,nodes,evictions,promised_usd_per_hour,realized_usd_per_hour\npay,1,1,1,0.096001,0.096001\n",
		"/spot-savings.csv?by=team":      "team,on_demand_usd,saved_usd\npay,0.000026,0.000018\n", // of a second
		"/spot-savings.csv?by=namespace": "namespace,on_demand_usd,saved_usd\nweb,0.000026,0.000018\n",
	} {
		if status, _, body := r.ask("viewer", http.MethodGet, path, ""); status != http.StatusOK || string(body) != want {
			t.Errorf("%s: %d %q, want %q", path, status, body, want)
		}
	}
	var savings history.Savings
	status, _, body = r.ask("viewer", http.MethodGet, "/savings?since=1h", "")
	if err := json.Unmarshal(body, &savings); status != http.StatusOK || err != nil || savings.Total.Realized != 96_001 || len(savings.Items) != 1 {
		t.Errorf("%d %v %s", status, err, body)
	}
	var timeline history.Timeline
	status, _, body = r.ask("viewer", http.MethodGet, "/timeline", "")
	if err := json.Unmarshal(body, &timeline); status != http.StatusOK || err != nil || len(timeline.Points) != 1 || timeline.Points[0].Commands != 1 || timeline.Points[0].Ended != 1 {
		t.Errorf("%d %v %s", status, err, body)
	}
	for query, want := range map[string]history.Sums{"?reason=empty": {Commands: 1, Ended: 1}, "?kind=ended": {Ended: 1}, "?reason=Drifted": {}, "?object=node/a": {Commands: 1}, "?object=nodeclaim/a-claim&kind=ended": {Ended: 1}} {
		var timeline history.Timeline
		status, _, body = r.ask("viewer", http.MethodGet, "/timeline"+query, "")
		err := json.Unmarshal(body, &timeline)
		sums := history.Sums{}
		for _, p := range timeline.Points {
			sums.Commands, sums.Ended = sums.Commands+p.Commands, sums.Ended+p.Ended
		}
		if status != http.StatusOK || err != nil || sums != want {
			t.Errorf("%s: %d %v %s", query, status, err, body)
		}
	}
	for path, want := range map[string]int{"/timeline?kind=x": 400, "/timeline?object=x": 400, "/timeline?object=node/unknown": 404, "/savings?since=yesterday": 400, "/timeline?until=x": 400, "/savings.csv?since=1h": 200, "/savings.csv?by=x": 400, "/spot-savings.csv?by=x": 400, "/savings.csv?by=team&since=x": 400, "/timeline?nodepool=": 200} {
		if status, _, body := r.ask("viewer", http.MethodGet, path, ""); status != want {
			t.Errorf("%s: %d %s", path, status, body)
		}
	}
	for _, path := range []string{"/savings", "/savings.csv", "/spot-savings.csv", "/timeline"} {
		if status, _, _ := r.ask("nobody", http.MethodGet, path, ""); status != http.StatusForbidden {
			t.Errorf("%s: %d for who may not", path, status)
		}
	}
}

func TestDollars(t *testing.T) {
	for micro, want := range map[int64]string{0: "0.000000", 1: "0.000001", -1_500_000: "-1.500000", 96_001: "0.096001", 12_000_000: "12.000000"} {
		if got := dollars(micro); got != want {
			t.Errorf("%d: %s, want %s", micro, got, want)
		}
	}
}
