package rules

import (
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/prometheus/prometheus/model/labels"
	"github.com/prometheus/prometheus/promql/parser"
	"go.yaml.in/yaml/v2"
)

// top is the root of the repository.
const top = "../../.."

// ruleFile is a file of rules, with the fields that matter here.
type ruleFile struct {
	Groups []struct {
		Name  string `yaml:"name"`
		Rules []rule `yaml:"rules"`
	} `yaml:"groups"`
}

type rule struct {
	Alert       string            `yaml:"alert"`
	Record      string            `yaml:"record"`
	Expr        string            `yaml:"expr"`
	For         string            `yaml:"for"`
	Labels      map[string]string `yaml:"labels"`
	Annotations map[string]string `yaml:"annotations"`
}

// Every alert has a severity, texts, and a runbook of its name with the three sections; and every runbook
// belongs to an alert.
func TestAlertsHaveRunbooks(t *testing.T) {
	used := map[string]bool{filepath.Join(top, "docs/runbooks/README.md"): true}
	for _, r := range allRules(t) {
		if r.Alert == "" {
			continue
		}
		if !slices.Contains([]string{"critical", "warning", "info"}, r.Labels["severity"]) {
			t.Errorf("%s: severity %q", r.Alert, r.Labels["severity"])
		}
		if r.Annotations["summary"] == "" || r.Annotations["description"] == "" {
			t.Errorf("%s has no summary or no description", r.Alert)
		}
		path := filepath.Join(top, r.Annotations["runbook_url"])
		used[path] = true
		text, err := os.ReadFile(path)
		if err != nil {
			t.Errorf("%s: %v", r.Alert, err)
			continue
		}
		for _, want := range []string{r.Alert, "## Meaning", "## How to look", "## What to do"} {
			if !strings.Contains(string(text), want) {
				t.Errorf("%s lacks %q", path, want)
			}
		}
	}
	for _, file := range find(t, "docs/runbooks/*.md") {
		if !used[file] {
			t.Errorf("%s: no alert leads to it", file)
		}
	}
}

// Every query in rules and dashboards parses, and uses metrics that exist.
func TestQueriesNameMetricsThatExist(t *testing.T) {
	known := metrics(t)
	p := parser.NewParser(parser.Options{})
	for where, query := range queries(t) {
		expr, err := p.ParseExpr(query)
		if err != nil {
			t.Errorf("%s: %v\n%s", where, err, query)
			continue
		}
		for _, name := range namesIn(expr) {
			if !known[name] {
				t.Errorf("%s: there is no metric %s", where, name)
			}
		}
	}
}

// namesIn are the metrics that an expression selects.
func namesIn(expr parser.Expr) (list []string) {
	parser.Inspect(expr, func(n parser.Node, _ []parser.Node) error {
		v, ok := n.(*parser.VectorSelector)
		if !ok {
			return nil
		}
		for _, m := range v.LabelMatchers {
			if m.Name == labels.MetricName {
				list = append(list, m.Value)
			}
		}
		return nil
	})
	return list
}

var row = regexp.MustCompile("(?m)^\\| `([a-z_A-Z]+)` \\| (\\w+) \\|")

// metrics are the names in docs/metrics.md, with the series of histograms and summaries, and the names that
// rules record.
func metrics(t *testing.T) map[string]bool {
	t.Helper()
	page, err := os.ReadFile(filepath.Join(top, "docs/metrics.md"))
	if err != nil {
		t.Fatal(err)
	}
	known := map[string]bool{}
	for _, m := range row.FindAllStringSubmatch(string(page), -1) {
		for _, service := range []string{"provisioner", "disruptor", "terminator", "lifecycle"} {
			name := strings.ReplaceAll(m[1], "SERVICE", service)
			known[name] = true
			if m[2] == "histogram" || m[2] == "summary" {
				known[name+"_sum"], known[name+"_count"] = true, true
			}
			if m[2] == "histogram" {
				known[name+"_bucket"] = true
			}
		}
	}
	if len(known) < 100 {
		t.Fatalf("docs/metrics.md lists %d metrics", len(known))
	}
	for _, r := range allRules(t) {
		if r.Record != "" {
			known[r.Record] = true
		}
	}
	return known
}

// queries are those of rules and dashboards, by where they stand.
func queries(t *testing.T) map[string]string {
	t.Helper()
	list := map[string]string{}
	for _, r := range allRules(t) {
		list["rule "+r.Alert+r.Record] = r.Expr
	}
	panels, err := Panels(top)
	if err != nil {
		t.Fatal(err)
	}
	for _, p := range panels {
		if p.Description == "" || len(p.Links) == 0 || len(p.Targets) == 0 {
			t.Errorf("%s, %s lacks a description, a link or a query", p.File, p.Title)
		}
		for _, l := range p.Links {
			if _, err := os.Stat(filepath.Join(top, l.URL)); err != nil {
				t.Errorf("%s, %s: %v", p.File, p.Title, err)
			}
		}
		for i, target := range p.Targets {
			if list[p.Where(i)] != "" {
				t.Errorf("%s: there are two queries of this name", p.Where(i))
			}
			list[p.Where(i)] = Expression(target.Expr, "5m", "x")
		}
	}
	return list
}

func allRules(t *testing.T) (list []rule) {
	t.Helper()
	for _, file := range find(t, "deploy/alerts/*.yaml") {
		raw, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		var f ruleFile
		if err := yaml.UnmarshalStrict(raw, &f); err != nil {
			t.Fatalf("%s: %v", file, err)
		}
		for _, g := range f.Groups {
			list = append(list, g.Rules...)
		}
	}
	return list
}

func alertNames(t *testing.T) (list []string) {
	t.Helper()
	for _, r := range allRules(t) {
		if r.Alert != "" {
			list = append(list, r.Alert)
		}
	}
	return list
}

// find returns the files that match a pattern below the root; to find none is a failure.
func find(t *testing.T, pattern string) []string {
	t.Helper()
	files, err := filepath.Glob(filepath.Join(top, pattern))
	if err != nil || len(files) == 0 {
		t.Fatalf("%s: no files, %v", pattern, err)
	}
	return files
}
