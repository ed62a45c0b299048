package main

import (
	"context"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"strings"
	"testing"
	"time"

	cehttp "github.com/cloudevents/sdk-go/v2/protocol/http"

	"millwright/planner/ledger"
	"millwright/store"
	"millwright/store/etcdlog"
	"millwright/store/etcdlog/embedded"
)

// The export by itself needs an etcd and a sink, and nothing else: no API server, no NATS, no AWS.
func TestTheExportRunsByItself(t *testing.T) {
	dir := t.TempDir()
	server, err := embedded.Start(filepath.Join(dir, "etcd"))
	if err != nil {
		t.Fatal(err)
	}
	defer server.Close()
	log, err := etcdlog.Open(t.Context(), etcdlog.Config{Client: server.Client, Cluster: "test"})
	if err != nil {
		t.Fatal(err)
	}
	defer log.Close()
	if _, err := log.Append(t.Context(), store.Draft{Time: time.Now(), Service: "lifecycle", Mode: "active", Kind: uint16(ledger.KindAlarmRaised), Ignorable: true,
		Payload: []byte(`{"reason":"r","message":"m"}`)}); err != nil {
		t.Fatal(err)
	}
	came := make(chan string, 10)
	sink := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, q *http.Request) {
		if e, err := cehttp.NewEventFromHTTPRequest(q); err == nil {
			came <- e.Type()
		}
	}))
	defer sink.Close()
	endpoints, err := embedded.Endpoints(filepath.Join(dir, "etcd"))
	if err != nil {
		t.Fatal(err)
	}
	t.Setenv("KUBECONFIG", filepath.Join(dir, "none"))
	ctx, cancel := context.WithCancel(t.Context())
	root := newRoot()
	root.SetArgs([]string{"export", "--cluster-name", "test", "--etcd-endpoints", strings.Join(endpoints, ","), "--export-cloudevents-url", sink.URL,
		"--export-from", "beginning", "--metrics-port", "0", "--health-probe-port", "0", "--log-level", "warn"})
	ended := make(chan error, 1)
	go func() { ended <- root.ExecuteContext(ctx) }()
	for _, want := range []string{"sh.millwright.outcome.Genesis", "sh.millwright.outcome.AlarmRaised"} {
		select {
		case got := <-came:
			if got != want {
				t.Errorf("%s came, want %s", got, want)
			}
		case err := <-ended:
			t.Fatalf("it ended: %v", err)
		case <-time.After(time.Minute):
			t.Fatalf("no %s has come", want)
		}
	}
	cancel()
	if err := <-ended; err != nil {
		t.Error(err)
	}
	// The last answer may have been on its way.
	if text, err := log.Cursor(t.Context(), "cloudevents"); err != nil || !strings.HasPrefix(text, `{"seq":2,`) && !strings.HasPrefix(text, `{"seq":1,`) {
		t.Errorf("the cursor is %q, %v", text, err)
	}
}

func TestAnExportWithoutASinkIsRefused(t *testing.T) {
	root := newRoot()
	root.SetArgs([]string{"export", "--cluster-name", "test", "--etcd-endpoints", "https://etcd:2379"})
	if err := root.ExecuteContext(t.Context()); err == nil || !strings.Contains(err.Error(), "--export-cloudevents-url") {
		t.Error(err)
	}
}
