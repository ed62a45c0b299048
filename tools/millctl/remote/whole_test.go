package remote

import (
	"bytes"
	"crypto/ed25519"
	"crypto/rand"
	"crypto/x509"
	"encoding/pem"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/rs/zerolog"

	"millwright/planner/ledger"
	"millwright/services/console/api"
	"millwright/services/console/consoletest"
	"millwright/services/console/index"
	"millwright/services/console/view"
	"millwright/store/audit/heads"
	"millwright/store/audit/plan"
	"millwright/store/audit/shadow"
)

// asking is a client of a server that answers as a console, or as something else.
func asking(t *testing.T, handler http.Handler) *Client {
	t.Helper()
	s := httptest.NewServer(handler)
	t.Cleanup(s.Close)
	return &Client{base: s.URL, token: "operator", transport: &http.Transport{}}
}

func consoleOf(t *testing.T, rig *consoletest.Rig) *Client {
	t.Helper()
	mux := http.NewServeMux()
	done := make(chan struct{})
	t.Cleanup(func() { close(done) })
	api.New(api.Config{View: rig.View, Index: rig.Index, Log: rig.Log, Reviewer: consoletest.Everybody(), Now: rig.Clock.Now, Logger: zerolog.Nop(), Done: done}).Register(mux)
	return asking(t, mux)
}

// signer makes a key, and returns what signs with it and its public half.
func signer(t *testing.T, logID string) (*heads.Signer, []heads.Key) {
	t.Helper()
	check := func(err error) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
	}
	public, private, err := ed25519.GenerateKey(rand.Reader)
	check(err)
	dir := t.TempDir()
	write := func(name, kind string, der []byte, err error) string {
		check(err)
		file := filepath.Join(dir, name)
		check(os.WriteFile(file, pem.EncodeToMemory(&pem.Block{Type: kind, Bytes: der}), 0o600))
		return file
	}
	der, err := x509.MarshalPKCS8PrivateKey(private)
	s, err := heads.NewSigner(write("private", "PRIVATE KEY", der, err), logID)
	check(err)
	der, err = x509.MarshalPKIXPublicKey(public)
	keys, err := heads.PublicKeys(write("public", "PUBLIC KEY", der, err))
	check(err)
	return s, keys
}

// What was signed is checked here: a console that tells another hash, another head or none is found out.
func TestSignedHeadsAreCheckedHere(t *testing.T) {
	rig := consoletest.New(t, "test")
	s, keys := signer(t, rig.Log.ID())
	_, others := signer(t, rig.Log.ID())
	head, err := rig.Log.Head(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	signed, err := s.Sign(t.Context(), head, rig.Clock.Now())
	if err != nil {
		t.Fatal(err)
	}
	rig.Outcome(ledger.KindLedgerCheckpoint, &ledger.LedgerCheckpoint{Seq: head.Seq, Blob: "x", Signed: signed})
	rig.Read()
	c := consoleOf(t, rig)
	ask := func() *Signed {
		t.Helper()
		x, err := c.Verify(t.Context(), head.Seq, func(uint64, uint64) {})
		if err != nil || x.Broken != "" || x.Records != head.Seq+1 {
			t.Fatal(x, err)
		}
		return x
	}
	finish := func(x *Signed, keys []heads.Key) (ledger.SignedHead, error) {
		checker := heads.NewChecker(x, keys)
		if err := x.AddTo(checker); err != nil {
			return ledger.SignedHead{}, err
		}
		return checker.Finish(t.Context(), x.First)
	}
	x := ask()
	if newest, err := finish(x, keys); err != nil || newest.Seq != head.Seq {
		t.Errorf("%+v, %v", newest, err)
	}
	if err := heads.NewChecker(x, nil).Holds(t.Context(), fmt.Sprintf("%d:%x", head.Seq, head.Hash)); err != nil {
		t.Error(err)
	}
	if err := heads.NewChecker(x, nil).Holds(t.Context(), fmt.Sprintf("%d:%064x", head.Seq, 7)); !errors.Is(err, heads.ErrForged) {
		t.Errorf("another head that was kept: %v", err)
	}
	for about, lie := range map[string]func(*Signed){
		"another hash of the record": func(x *Signed) { x.hashes[head.Seq] = strings.Repeat("0", 64) },
		"no hash of the record":      func(x *Signed) { x.hashes[head.Seq] = "" },
		"a head nobody signed":       func(x *Signed) { x.heads[0].Signed.Hash = strings.Repeat("0", 64) },
		"the head of another log":    func(x *Signed) { x.LogID = "another" },
		"a head of a later record":   func(x *Signed) { x.heads[0].Record = head.Seq },
	} {
		x := ask()
		lie(x)
		if _, err := finish(x, keys); !errors.Is(err, heads.ErrForged) {
			t.Errorf("%s: %v", about, err)
		}
	}
	if _, err := finish(ask(), others); !errors.Is(err, heads.ErrForged) {
		t.Errorf("another key: %v", err)
	}
	x = ask()
	x.heads = nil
	if _, err := finish(x, keys); !errors.Is(err, heads.ErrUnsigned) {
		t.Errorf("heads that are left out: %v", err)
	}
}

// The report of the console comes as it is made there.
func TestTheShadowReportOfTheConsole(t *testing.T) {
	log, rec := consoletest.Shadowed(t, "../../../store/audit/testdata/v20/TestDeletingByHand.rec")
	rig := consoletest.New(t, "test")
	idx := index.New(log.ID(), 0)
	rig.Index, rig.View = idx, view.New(view.Config{Cluster: "test", Log: log, Stream: rec, Index: idx, Now: time.Now})
	want, err := shadow.Compare(t.Context(), log, rec, time.Unix(0, 0))
	if err != nil || want.Decisions == 0 {
		t.Fatal(want, err)
	}
	c, told := consoleOf(t, rig), uint64(0)
	got, err := c.ShadowReport(t.Context(), 999_999*time.Hour, func(_, last uint64) { told = last })
	if err != nil || got.Decisions != want.Decisions || len(got.Differences) != len(want.Differences) || !got.To.Equal(want.To) || told == 0 {
		t.Errorf("%+v, %v; want %+v, told %d", got, err, want, told)
	}
	if _, err := c.ShadowReport(t.Context(), time.Hour, func(uint64, uint64) {}); err == nil || !strings.Contains(err.Error(), "nothing was decided in mode shadow") {
		t.Error(err)
	}
}

// The plan of the console is the one that is made here of the same, as a table too.
func TestThePlanOfTheConsole(t *testing.T) {
	rig := consoletest.New(t, "test")
	rig.Read()
	c := consoleOf(t, rig)
	cost := 0.5
	cfg := plan.Config{NodeTime: time.Minute, NodeCost: &cost, MinValuesPolicy: "BestEffort", Sources: []plan.Source{
		plan.Text("a.yaml", "apiVersion: v1\nkind: Pod\nmetadata: {name: asked, namespace: shop}\nspec: {containers: [{name: c, resources: {requests: {cpu: 3}}}]}\n"),
		plan.Text("b.yaml", "apiVersion: apps/v1\nkind: Deployment\nmetadata: {name: web, namespace: shop}\nspec: {replicas: 2, template: {spec: {containers: [{name: c}]}}}\n")}}
	x := &view.Plan{}
	if err := c.Plan(t.Context(), cfg, PlanKind{}, x); err != nil {
		t.Fatal(err)
	}
	if x.Provisioning == nil || x.Disruption != nil || !strings.Contains(x.ProvisioningText, "shop/asked") || !strings.Contains(x.ProvisioningText, "2 of 2 pods placed") {
		t.Errorf("%+v", x)
	}
	cfg.Workloads = true
	if err := c.Plan(t.Context(), cfg, PlanKind{}, x); err != nil || !strings.Contains(x.ProvisioningText, "4 of 4 pods placed") {
		t.Errorf("%v, %s", err, x.ProvisioningText)
	}
	x = &view.Plan{}
	if err := c.Plan(t.Context(), cfg, PlanKind{Disruption: true}, x); err != nil || x.Provisioning != nil || x.Disruption == nil || x.Disruption.Settled != nil || x.DisruptionText == "" {
		t.Errorf("%v, %+v", err, x)
	}
	if err := c.Plan(t.Context(), cfg, PlanKind{Disruption: true, Settled: true}, x); err != nil || x.Disruption.Settled == nil {
		t.Errorf("%v, %+v", err, x)
	}
	if err := c.Plan(t.Context(), cfg, PlanKind{At: "yesterday"}, x); err == nil || !strings.Contains(err.Error(), "must be as in") {
		t.Error(err)
	}
	cost = -1
	if err := c.Plan(t.Context(), cfg, PlanKind{}, x); err == nil || !strings.Contains(err.Error(), "nodeCost") {
		t.Error(err)
	}
}

// An answer that ends too early is an error, whatever came of it.
func TestAnswersThatEndTooEarly(t *testing.T) {
	c := asking(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if strings.HasSuffix(r.URL.Path, "/bundles") {
			_, _ = w.Write(bytes.Repeat([]byte("x"), 100_000))
			return
		}
		_, _ = w.Write([]byte("event: progress\ndata: {\"record\":1,\"last\":9}\n\n"))
	}))
	var out bytes.Buffer
	if err := c.Bundle(t.Context(), view.BundleRequest{Reason: "x"}, &out); !errors.Is(err, ErrCutOff) {
		t.Errorf("a bundle without its end: %v", err)
	}
	told := 0
	if _, err := c.Verify(t.Context(), 0, func(done, last uint64) { told += int(last) }); !errors.Is(err, ErrCutOff) || told != 9 {
		t.Errorf("a verification without its end: %v, told %d", err, told)
	}
	failing := asking(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Trailer", api.ResultHeader)
		_, _ = w.Write([]byte("event: error\ndata: {\"status\":400,\"message\":\"it takes too long\"}\n\n"))
		w.Header().Set(api.ResultHeader, "it is too long")
	}))
	if err := failing.Bundle(t.Context(), view.BundleRequest{}, &out); err == nil || !strings.Contains(err.Error(), "it is too long") {
		t.Error(err)
	}
	if _, err := failing.ReplayRange(t.Context(), view.RangeRequest{}, nil, func(uint64, uint64) {}); err == nil || !strings.Contains(err.Error(), "it takes too long") {
		t.Error(err)
	}
	denied := asking(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { w.WriteHeader(http.StatusForbidden) }))
	if err := denied.Bundle(t.Context(), view.BundleRequest{}, &out); !Denied(err) {
		t.Error(err)
	}
}
