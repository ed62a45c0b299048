package main

import (
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"millwright/services/internal/process"
)

// docs/metrics.md is as the code says.
func TestPageIsUpToDate(t *testing.T) {
	have, err := os.ReadFile("../../../docs/metrics.md")
	if err != nil {
		t.Fatal(err)
	}
	if string(have) != page(groups()) {
		t.Error("docs/metrics.md is out of date: run make generate")
	}
}

// Every metric has a meaning and a name of ours, and types and labels are read as they were registered.
func TestMetricsAreDescribed(t *testing.T) {
	byName := map[string]metric{}
	for _, g := range groups() {
		if len(g.metrics) == 0 {
			t.Errorf("section %s is empty", g.title)
		}
		for _, m := range g.metrics {
			byName[m.name] = m
			if m.help == "" || !regexp.MustCompile(`^(karpenter|millwright|operator)_`).MatchString(m.name) {
				t.Errorf("%s: meaning %q", m.name, m.help)
			}
		}
	}
	for name, want := range map[string]string{
		"karpenter_nodes_termination_duration_seconds":        "summary nodepool",
		"karpenter_pods_scheduling_decision_duration_seconds": "histogram ",
		"karpenter_nodeclaims_created_total":                  "counter reason nodepool min_values_relaxed",
		"millwright_control_stopped":                          "gauge level",
		"millwright_watcher_resyncs_total":                    "counter ",
		"millwright_SERVICE_leader":                           "gauge ",
		"millwright_clock_offset_seconds":                     "gauge witness",
	} {
		m := byName[name]
		if got := m.kind + " " + strings.Join(m.labels, " "); got != want {
			t.Errorf("%s is %q, want %q", name, got, want)
		}
	}
}

// A former name is of a metric that there is, and is none itself.
func TestFormerNamesAreOfMetrics(t *testing.T) {
	names := map[string]bool{}
	for _, g := range groups() {
		for _, m := range g.metrics {
			names[m.name] = true
		}
	}
	for _, n := range process.FormerNames {
		if !names[n.Name] || names[n.Former] {
			t.Errorf("%s, formerly %s", n.Name, n.Former)
		}
		names[n.Former] = true
	}
}

// Every package that makes metrics is among the sources: its directory is named in the imports of this one.
func TestNoPackageIsMissing(t *testing.T) {
	imports, err := os.ReadFile("groups.go")
	if err != nil {
		t.Fatal(err)
	}
	makes := regexp.MustCompile(`prometheus\.(New(Counter|Gauge|Histogram|Summary|Desc)|(Counter|Gauge|Histogram|Summary)Opts)`)
	found := 0
	err = filepath.WalkDir("../..", func(file string, _ fs.DirEntry, err error) error {
		if err != nil || !strings.HasSuffix(file, ".go") || strings.HasSuffix(file, "_test.go") || strings.HasPrefix(file, "../../cmd/") {
			return err
		}
		text, err := os.ReadFile(file)
		if err != nil || !makes.Match(text) {
			return err
		}
		found++
		dir := strings.TrimPrefix(filepath.ToSlash(filepath.Dir(file)), "../../")
		if !strings.Contains(string(imports), `"millwright/services/`+dir+`"`) {
			t.Errorf("%s makes metrics that are in no section", file)
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	if found < 15 {
		t.Errorf("found %d files with metrics", found)
	}
}
