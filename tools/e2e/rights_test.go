package e2e

import (
	"bufio"
	"bytes"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"testing"

	"millwright/tools/rights"
	"millwright/tools/stack"
)

// auditArgs make a cluster keep an audit log in dir.
func auditArgs(t *testing.T, dir string) []string {
	t.Helper()
	policy := filepath.Join(dir, "audit-policy.yaml")
	if err := os.WriteFile(policy, []byte(rights.AuditPolicy), 0o600); err != nil {
		t.Fatal(err)
	}
	return []string{"--kube-apiserver-arg", "--audit-policy-file=" + policy, "--kube-apiserver-arg", "--audit-log-path=" + auditLog(dir)}
}

func auditLog(dir string) string { return filepath.Join(dir, "audit.log") }

// readAudit records what Millwright's accounts requested, and fails if any of it was forbidden, except for
// what their roles grant: an API server that has just started does not know the roles yet.
func readAudit(t *testing.T, dir string) {
	t.Helper()
	data, err := os.ReadFile(auditLog(dir))
	if err != nil {
		t.Errorf("read audit log: %v", err)
		return
	}
	granted, err := rights.OfTheChart()
	if err != nil {
		t.Error(err)
	}
	used, refused := rights.Used{}, map[rights.Right]bool{}
	lines := bufio.NewScanner(bytes.NewReader(data))
	lines.Buffer(nil, 1<<20)
	for lines.Scan() {
		r, allowed, ok := rights.ParseAudit(lines.Bytes())
		if !ok {
			continue
		}
		if allowed {
			used[r] = true
		} else if !refused[r] && !slices.Contains(granted, r) {
			refused[r] = true
			t.Errorf("the API server refused %s", r)
		}
	}
	if err := lines.Err(); err != nil {
		t.Errorf("read audit log: %v", err)
	}
	if record := os.Getenv(rights.DirEnv); record != "" {
		if err := rights.Record(record, t.Name(), used); err != nil {
			t.Error(err)
		}
	}
}

// TestMain has all processes collect garbage less often, unless the environment says how often: tests are
// short of CPU, not of memory. In the end it notes that all tests have run, for `make e2e-only`, which then
// compares the chart's roles with what services used in any of them.
func TestMain(m *testing.M) {
	flag.Parse()
	if os.Getenv("GOGC") == "" {
		if err := os.Setenv("GOGC", "300"); err != nil {
			panic(err)
		}
	}
	code := m.Run()
	record, filter := os.Getenv(rights.DirEnv), flag.Lookup("test.run").Value.String()+flag.Lookup("test.skip").Value.String()
	if record != "" && filter == "" && !testing.Short() {
		if err := rights.RecordWhole(record); err != nil {
			fmt.Fprintln(os.Stderr, err)
			code = max(code, 1)
		}
	}
	os.Exit(code)
}

// TestARightBeyondARoleIsRefused requests, as each service, one thing that only another may do.
func TestARightBeyondARoleIsRefused(t *testing.T) {
	e := start(t, func(o *stack.Options) { o.FiveProcesses = true })
	for account, beyond := range map[string]rights.Right{
		"watcher":     {Verb: "patch", Resource: "nodes"},
		"provisioner": {Verb: "create", Group: "karpenter.sh", Resource: "nodeclaims"},
		"disruptor":   {Verb: "create", Resource: "pods/eviction"},
		"terminator":  {Verb: "delete", Group: "karpenter.sh", Resource: "nodeclaims"},
		"lifecycle":   {Verb: "create", Resource: "pods/eviction"},
	} {
		if e.allowed(account, beyond) {
			t.Errorf("%s may %s %s", account, beyond.Verb, beyond.Resource)
		}
	}
	if !e.allowed("terminator", rights.Right{Verb: "create", Resource: "pods/eviction"}) {
		t.Error("terminator may not evict pods")
	}
}
