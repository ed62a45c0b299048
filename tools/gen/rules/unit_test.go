package rules

import (
	"context"
	"flag"
	"fmt"
	"log/slog"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/common/model"
	"github.com/prometheus/prometheus/model/labels"
	"github.com/prometheus/prometheus/promql/parser"
	"github.com/prometheus/prometheus/promql/promqltest"
	"github.com/prometheus/prometheus/rules"
	"go.yaml.in/yaml/v2"
)

var rewrite = flag.Bool("rewrite", false, "write the alerts that fire as the expected ones")

// unitTests is a file in promtool's format, with the fields that the tests here use.
type unitTests struct {
	RuleFiles          []string       `yaml:"rule_files"`
	EvaluationInterval model.Duration `yaml:"evaluation_interval"`
	Tests              []unitTest     `yaml:"tests"`
}

type unitTest struct {
	Name           string         `yaml:"name"`
	Interval       model.Duration `yaml:"interval"`
	InputSeries    []inputSeries  `yaml:"input_series"`
	AlertRuleTests []alertCase    `yaml:"alert_rule_test"`
}

type inputSeries struct {
	Series string `yaml:"series"`
	Values string `yaml:"values"`
}

type alertCase struct {
	EvalTime  model.Duration  `yaml:"eval_time"`
	Alertname string          `yaml:"alertname"`
	ExpAlerts []expectedAlert `yaml:"exp_alerts"`
}

type expectedAlert struct {
	Labels      map[string]string `yaml:"exp_labels"`
	Annotations map[string]string `yaml:"exp_annotations"`
}

// Each alert fires when its test says so, with these labels and texts, and no other alert fires at that time.
func TestAlertsFire(t *testing.T) {
	fires, known := map[string]bool{}, alertNames(t)
	for _, file := range find(t, "deploy/alerts/tests/*.yaml") {
		f := readUnitTests(t, file)
		for i := range f.Tests {
			test := &f.Tests[i]
			t.Run(test.Name, func(t *testing.T) { test.run(t, f, filepath.Dir(file), known, fires) })
		}
		if *rewrite {
			writeUnitTests(t, file, f)
		}
	}
	for _, name := range known {
		if !fires[name] {
			t.Errorf("no test in which the alert %s fires", name)
		}
	}
}

func (u *unitTest) run(t *testing.T, f *unitTests, dir string, known []string, fires map[string]bool) {
	for i := range u.AlertRuleTests {
		c := &u.AlertRuleTests[i]
		got := u.firing(t, f, dir, time.Duration(c.EvalTime))
		if *rewrite {
			c.ExpAlerts = got[c.Alertname]
		}
		if len(c.ExpAlerts) > 0 {
			fires[c.Alertname] = true
		}
		if want, have := fmt.Sprint(c.ExpAlerts), fmt.Sprint(got[c.Alertname]); want != have {
			t.Errorf("%s at %s:\n got %s\nwant %s", c.Alertname, c.EvalTime, have, want)
		}
		asked := func(name string) bool {
			return slices.ContainsFunc(u.AlertRuleTests, func(o alertCase) bool { return o.Alertname == name })
		}
		for name := range got {
			if !asked(name) && u.Name != "nothing is scraped" && name != "MillwrightAbsent" {
				t.Errorf("%s fires too", name)
			}
			if !slices.Contains(known, name) {
				t.Errorf("%s is no alert of the rules", name)
			}
		}
	}
}

// firing evaluates all rules up to a time and returns the alerts that then fire, by name.
func (u *unitTest) firing(t *testing.T, f *unitTests, dir string, at time.Duration) map[string][]expectedAlert {
	t.Helper()
	load := &strings.Builder{}
	fmt.Fprintf(load, "load %s\n", time.Duration(u.Interval))
	for _, s := range u.InputSeries {
		fmt.Fprintf(load, "  %s %s\n", s.Series, s.Values)
	}
	p := parser.NewParser(parser.Options{})
	suite, err := promqltest.NewLazyLoader(load.String(), promqltest.LazyLoaderOpts{EnableAtModifier: true, EnableNegativeOffset: true, Parser: p})
	if err != nil {
		t.Fatal(err)
	}
	defer func() {
		if err := suite.Close(); err != nil {
			t.Error(err)
		}
	}()
	suite.SubqueryInterval = time.Duration(f.EvaluationInterval)
	groups := u.load(t, suite, p, f, dir)
	for now := time.Unix(0, 0).UTC(); now.Sub(time.Unix(0, 0)) <= at; now = now.Add(time.Duration(f.EvaluationInterval)) {
		suite.WithSamplesTill(now, func(err error) {
			if err != nil {
				t.Fatal(err)
			}
			for _, g := range groups {
				g.Eval(suite.Context(), now)
			}
		})
	}
	return firingOf(t, groups)
}

// load reads the rules; the groups are in the order of the files.
func (u *unitTest) load(t *testing.T, suite *promqltest.LazyLoader, p parser.Parser, f *unitTests, dir string) []*rules.Group {
	t.Helper()
	manager := rules.NewManager(&rules.ManagerOptions{
		QueryFunc: rules.EngineQueryFunc(suite.QueryEngine(), suite.Storage()), AppendableV2: suite.Storage(), Context: context.Background(),
		NotifyFunc: func(context.Context, string, ...*rules.Alert) {}, Logger: slog.New(slog.DiscardHandler), Parser: p,
	})
	var files []string
	for _, name := range f.RuleFiles {
		files = append(files, filepath.Join(dir, name))
	}
	loaded, errs := manager.LoadGroups(time.Duration(u.Interval), labels.EmptyLabels(), "", nil, false, files...)
	if len(errs) > 0 {
		t.Fatal(errs)
	}
	var groups []*rules.Group
	for _, key := range slices.Sorted(maps.Keys(loaded)) { // recording rules come before the alerts that use them
		if strings.HasSuffix(key, "recordings") {
			groups = append([]*rules.Group{loaded[key]}, groups...)
		} else {
			groups = append(groups, loaded[key])
		}
	}
	return groups
}

func firingOf(t *testing.T, groups []*rules.Group) map[string][]expectedAlert {
	t.Helper()
	got := map[string][]expectedAlert{}
	for _, g := range groups {
		for _, r := range g.Rules() {
			if err := r.LastError(); err != nil {
				t.Errorf("%s: %v", r.Name(), err)
			}
			alerting, ok := r.(*rules.AlertingRule)
			if !ok {
				continue
			}
			for _, a := range alerting.ActiveAlerts() {
				if a.State != rules.StateFiring {
					continue
				}
				l := a.Labels.Map()
				delete(l, labels.AlertName)
				got[r.Name()] = append(got[r.Name()], expectedAlert{Labels: l, Annotations: a.Annotations.Map()})
			}
		}
	}
	for _, list := range got {
		slices.SortFunc(list, func(a, b expectedAlert) int { return strings.Compare(fmt.Sprint(a.Labels), fmt.Sprint(b.Labels)) })
	}
	return got
}

func readUnitTests(t *testing.T, file string) *unitTests {
	t.Helper()
	raw, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	f := &unitTests{}
	if err := yaml.UnmarshalStrict(raw, f); err != nil {
		t.Fatalf("%s: %v", file, err)
	}
	return f
}

func writeUnitTests(t *testing.T, file string, f *unitTests) {
	t.Helper()
	raw, err := yaml.Marshal(f)
	if err != nil {
		t.Fatal(err)
	}
	head := "# Written by go test ./... -rewrite in tools/gen/rules: input series by hand, expected alerts as they fired.\n"
	if err := os.WriteFile(file, append([]byte(head), raw...), 0o644); err != nil {
		t.Fatal(err)
	}
}
