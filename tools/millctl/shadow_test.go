package main

import (
	"path/filepath"
	"strings"
	"testing"
	"time"

	"millwright/planner"
	"millwright/planner/ledger"
	pt "millwright/planner/plannertest"
	"millwright/planner/world"
	"millwright/store/audit"
	"millwright/store/etcdlog"
	etcdembedded "millwright/store/etcdlog/embedded"
)

func TestShadowReport(t *testing.T) {
	dir := observed(t, pt.Pool("general"))
	at := []string{"--cluster-name", "test", "--data-dir", dir}
	if _, err := ran(t, "", append(at, "shadow", "report")...); err == nil || !strings.Contains(err.Error(), "nothing was decided in mode shadow") {
		t.Error(err)
	}
	etcd, err := etcdembedded.Start(filepath.Join(dir, "etcd"))
	check(t, err)
	client, err := etcdlog.Dial(etcdlog.DialConfig{Endpoints: etcd.Endpoints})
	check(t, err)
	log, err := etcdlog.Open(t.Context(), etcdlog.Config{Client: client, Cluster: "test"})
	check(t, err)
	w := world.New()
	w.SetIncarnation("s")
	s := planner.SnapshotAt(w, ledger.New(""), time.Now())
	draft, err := audit.DecisionDraft(s.Basis(), planner.Decision{Kind: ledger.KindCommandStarted, Payload: &ledger.CommandStarted{Reason: "Empty", Candidates: []ledger.Candidate{{Node: "gone"}}}})
	check(t, err)
	draft.Time, draft.Service, draft.Mode = time.Now(), ledger.ServiceDisruptor, string(ledger.ModeShadow)
	_, err = log.Append(t.Context(), draft)
	check(t, err)
	check(t, log.Close())
	check(t, client.Close())
	check(t, etcd.Close())
	text, err := ran(t, "", append(at, "shadow", "report")...)
	if err != nil || !strings.Contains(text, "HAPPENED") {
		t.Errorf("%v\n%s", err, text)
	}
}

func check(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}
