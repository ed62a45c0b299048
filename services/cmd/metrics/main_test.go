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

var renamed = regexp.MustCompile("(?m)^\\| `([a-z_]+)` \\| `([a-z_]+)` \\| 1\\.\\d+ \\|$")

// The former names are all renames that the reference tells of (operations §2.6) whose present name is that
// of a metric, and nothing else.
func TestFormerNamesAreThoseOfTheReference(t *testing.T) {
	names := map[string]bool{}
	for _, g := range groups() {
		for _, m := range g.metrics {
			names[m.name] = true
		}
	}
	reference, err := os.ReadFile("../../../docs/reference/operations.md")
	if err != nil {
		t.Fatal(err)
	}
	want := map[process.FormerName]bool{}
	for _, row := range renamed.FindAllStringSubmatch(string(reference), -1) {
		n := process.FormerName{Former: "karpenter_" + row[1], Name: "karpenter_" + row[2]}
		if names[n.Former] {
			t.Errorf("%s is a metric of its own", n.Former)
		}
		if names[n.Name] {
			want[n] = true
		}
	}
	for _, n := range process.FormerNames {
		if !want[n] {
			t.Errorf("the reference does not tell that %s was %s", n.Name, n.Former)
		}
		delete(want, n)
	}
	if len(want) > 0 {
		t.Errorf("not served under their former names: %v", want)
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
