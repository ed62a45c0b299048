package main

import (
	"bytes"
	"encoding/pem"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/rs/zerolog"

	"millwright/events/membus"
	"millwright/planner/ledger"
	"millwright/planner/world"
	"millwright/services/console/api"
	"millwright/services/console/consoletest"
	"millwright/services/console/view"
	"millwright/store/audit"
)

// What once needed the log itself is asked of a console by its URL, with the token of the kubeconfig.
func TestTheWholeLogByTheConsole(t *testing.T) {
	for _, name := range []string{"CLUSTER_NAME", "DATA_DIR", "ETCD_ENDPOINTS", "NATS_URL", "CONSOLE_NAMESPACE", "CONSOLE_SERVICE_ACCOUNT"} {
		t.Setenv(name, "")
	}
	rig := consoletest.New(t, "test")
	rig.Propose(ledger.CommandProposed{Command: ledger.CommandStarted{Reason: "Empty", Method: "emptiness", Candidates: []ledger.Candidate{{Node: "node-a", Claim: "c", NodePool: "p"}}}})
	rig.Read()
	v := view.New(view.Config{Cluster: "test", Log: rig.Log, Index: rig.Index, Now: rig.Clock.Now, Stream: membus.NewBus().Connect(membus.QueueMax), Versions: func() (*world.World, *ledger.Ledger, error) {
		l, err := audit.PresentLedger(t.Context(), rig.Log)
		return world.New(), l, err
	}})
	mux, done := http.NewServeMux(), make(chan struct{})
	defer close(done)
	api.New(api.Config{View: v, Index: rig.Index, Log: rig.Log, Reviewer: consoletest.Everybody(), Now: rig.Clock.Now, Logger: zerolog.Nop(), Done: done}).Register(mux)
	server := httptest.NewTLSServer(mux)
	defer server.Close()
	dir := t.TempDir()
	write := func(name, text string) string {
		file := filepath.Join(dir, name)
		if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		return file
	}
	ca := write("ca.crt", string(pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: server.Certificate().Raw})))
	who := func(token string) string {
		return write(token, fmt.Sprintf("apiVersion: v1\nkind: Config\ncurrent-context: c\nclusters: [{name: c, cluster: {server: 'https://127.0.0.1:1'}}]\n"+
			"contexts: [{name: c, context: {cluster: c, user: u}}]\nusers: [{name: u, user: {token: %s}}]\n", token))
	}
	file, never := filepath.Join(dir, "incident"), filepath.Join(dir, "never")
	_, public := keys(t)
	for _, c := range []struct {
		token  string
		status exitStatus
		want   string
		args   []string
	}{
		{"viewer", 0, "hash chain intact, says the console", []string{"verify"}},
		{"viewer", 0, "hash chain intact, says the console", []string{"verify", "--cluster-name", "test"}},
		{"viewer", statusFailed, "this is the console of cluster test, not of prod", []string{"verify", "--cluster-name", "prod"}},
		{"operator", statusFailed, "this is the console of cluster test, not of prod", []string{"stop", "all", "--reason", "fire", "--cluster-name", "prod"}},
		{"viewer", statusFailed, "there is no such kind of records", []string{"log", "--kind", "Proposed"}},
		{"viewer", 0, "node-a", []string{"log", "--kind", "commandproposed", "--object", "nodes/node-a"}},
		{"viewer", statusFailed, "must not be negative", []string{"log", "--until", "-1h"}},
		{"viewer", statusFailed, "nothing about instance/i-1", []string{"why", "instance", "aws:///zone-a/i-1"}},
		{"viewer", statusFailed, "record 99 is missing", []string{"verify", "--head", "99:" + strings.Repeat("0", 64)}},
		{"viewer", statusFailed, "no head of the log is signed", []string{"verify", "--public-key", public}},
		{"viewer", 0, "0 decisions replayed, 0 divergences", []string{"replay"}},
		{"viewer", 0, "0 decisions replayed, 0 divergences", []string{"replay", "--since", "1h"}},
		{"viewer", statusFailed, "no record is in that span", []string{"replay", "--from", "99"}},
		{"viewer", statusFailed, "reads the log itself", []string{"replay", "--save", never}},
		{"viewer", 0, "0 decisions planned again", []string{"replay", "--record", "2", "--option", "node-cost=0.02"}},
		{"viewer", statusFailed, "not been seen completely yet", []string{"plan", "--server"}},
		{"viewer", statusDenied, "may not get bundles.millwright.sh", []string{"bundle", "--since", "1h", "-o", never}},
		{"operator", statusFailed, "must be KIND/NAME", []string{"bundle", "--object", "planet/mars", "-o", never}},
		{"operator", 0, "0 decisions replayed, 0 divergences", []string{"bundle", "--object", "node/node-a", "--reason", "for the vendor", "-o", file}},
		{"operator", statusFailed, "is there already", []string{"bundle", "--since", "1h", "-o", file}},
		{"viewer", 0, "taken by operator: for the vendor", []string{"log", "--kind", "BundleTaken"}},
	} {
		var out bytes.Buffer
		cmd := command()
		cmd.SetOut(&out)
		cmd.SetArgs(append(c.args, "--kubeconfig", who(c.token), "--console-url", server.URL, "--console-ca-file", ca))
		err := cmd.ExecuteContext(t.Context())
		if text := fmt.Sprint(out.String(), err); statusOf(err) != c.status || !strings.Contains(text, c.want) {
			t.Errorf("millctl %v: status %d, want %d with %q:\n%s", c.args, statusOf(err), c.status, c.want, text)
		}
	}
	if _, err := os.Stat(never); !os.IsNotExist(err) {
		t.Errorf("something is left of what failed: %v", err)
	}
}
