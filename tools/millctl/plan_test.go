package main

import (
	"bytes"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

func runPlan(t *testing.T, args ...string) (string, error) {
	t.Helper()
	cmd := command()
	var out bytes.Buffer
	cmd.SetOut(&out)
	cmd.SetArgs(append([]string{"plan"}, args...))
	err := cmd.Execute()
	return out.String(), err
}

func TestPlanExitStatus(t *testing.T) {
	bad := filepath.Join(t.TempDir(), "bad.yaml")
	if err := os.WriteFile(bad, []byte("kind: Pod\n"), 0o644); err != nil {
		t.Fatal(err)
	}
	const data = "../../store/audit/plan/testdata/"
	for name, c := range map[string]struct {
		args []string
		// status 2 comes with a plan, status 1 with a message that contains text.
		status int
		text   string
	}{
		"all placed":         {[]string{"--offline", "-f", data + "basic", "--catalog", data + "catalog.json", "-o", "json"}, 0, `"newNodeClaims"`},
		"as a table":         {[]string{"--offline", "-f", data + "basic/input.yaml", "--catalog", data + "catalog.json"}, 0, "NEW NODECLAIM"},
		"some refused":       {[]string{"--offline", "-f", data + "reasons/input.yaml", "--catalog", data + "catalog.json", "-o", "json"}, 2, `"default/too-big"`},
		"two inputs":         {[]string{"--offline", "-f", data + "basic/input.yaml", "-f", bad, "--catalog", data + "catalog.json"}, 1, "bad.yaml: document 1 (Pod): apiVersion"},
		"no input":           {[]string{"--offline", "--catalog", data + "catalog.json"}, 1, "give -f"},
		"no catalogue":       {[]string{"--offline", "-f", data + "basic"}, 1, "--catalog is required"},
		"not offline":        {[]string{"-f", data + "basic", "--catalog", data + "catalog.json"}, 1, "one of --offline and --server is required"},
		"another output":     {[]string{"--offline", "-f", data + "basic", "--catalog", data + "catalog.json", "-o", "xml"}, 1, "must be one of table, json, yaml"},
		"another time":       {[]string{"--offline", "-f", data + "basic", "--catalog", data + "catalog.json", "--now", "noon"}, 1, "invalid --now"},
		"time of the plan":   {[]string{"--offline", "-f", data + "basic/input.yaml", "--catalog", data + "catalog.json", "--now", "2026-03-02T10:00:00+01:00"}, 0, "3 of 3 pods"},
		"another preference": {[]string{"--offline", "-f", data + "basic/input.yaml", "--catalog", data + "catalog.json", "--preference-policy", "Maybe"}, 1, "must be Respect or Ignore"},
		"another minimum":    {[]string{"--offline", "-f", data + "basic/input.yaml", "--catalog", data + "catalog.json", "--min-values-policy", "Maybe"}, 1, "must be Strict or BestEffort"},
	} {
		t.Run(name, func(t *testing.T) {
			out, err := runPlan(t, c.args...)
			var status exitStatus
			switch {
			case c.status == 0 && err != nil, c.status == 1 && (err == nil || errors.As(err, &status)), c.status == 2 && (!errors.As(err, &status) || status != 2):
				t.Errorf("ended with %v, want status %d", err, c.status)
			case c.status == 1 && !strings.Contains(err.Error(), c.text):
				t.Errorf("said %v, want …%s…", err, c.text)
			case c.status != 1 && !strings.Contains(out, c.text):
				t.Errorf("printed %s, want …%s…", out, c.text)
			}
		})
	}
}

// A misspelt feature gate is named beside the plan, which is made without it.
func TestUnknownFeatureGatesOfAPlanAreNamed(t *testing.T) {
	args := []string{"plan", "--offline", "-f", "../../store/audit/plan/testdata/basic/input.yaml", "--catalog", "../../store/audit/plan/testdata/catalog.json", "--feature-gates"}
	for gates, want := range map[string]string{
		"StaticCapacity=false,NodeOverlay=true": "",
		"NodeOverlays=true":                     "millctl: --feature-gates: NodeOverlays is unknown and ignored; known are CapacityBuffer, Drift, NodeOverlay, NodeRepair, ReservedCapacity, SpotToSpotConsolidation, StaticCapacity\n",
	} {
		out, notes, err := runNoting(t, append(args, gates)...)
		if err != nil || notes != want || !strings.Contains(out, "3 of 3 pods") {
			t.Errorf("%s: %v, %q, %s", gates, err, notes, out)
		}
	}
}
