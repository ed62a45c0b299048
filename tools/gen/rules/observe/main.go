// Command observe scrapes Millwright as Prometheus does, with Prometheus' own scraper, database, rules and
// engine, until its standard input ends. Then it asks every query of the dashboards and every selector of the
// rules over the whole time, and prints as JSON how many samples each gave, and what failed. The end-to-end
// tests run it beside a stack.
//
//	observe --root . --target millwright=127.0.0.1:8080
package main

import (
	"context"
	"encoding/json"
	"flag"
	"fmt"
	"io"
	"log/slog"
	"maps"
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/common/model"
	"github.com/prometheus/prometheus/config"
	"github.com/prometheus/prometheus/discovery/targetgroup"
	"github.com/prometheus/prometheus/model/labels"
	"github.com/prometheus/prometheus/promql"
	"github.com/prometheus/prometheus/promql/parser"
	promrules "github.com/prometheus/prometheus/rules"
	"github.com/prometheus/prometheus/scrape"
	"github.com/prometheus/prometheus/tsdb"

	rules "millwright/tools/gen/rules"
)

const (
	// job that the dashboards' variable is to find.
	job = "millwright"
	// every is how often it scrapes and evaluates rules; rateInterval what rates are taken over.
	every        = time.Second
	rateInterval = "30s"
	// step of the queries, which end no later than queryTimeout.
	step         = 2 * time.Second
	queryTimeout = time.Minute
)

// result is what is printed.
type result struct {
	// Samples of each query of a panel over the whole time, by where it stands.
	Samples map[string]int `json:"samples"`
	// Selected are the samples of each selector of the rules, as it is written there: what an alert is made
	// of is there, whether it fires or not.
	Selected map[string]int `json:"selected"`
	// Rules are the alerts and recordings that were evaluated.
	Rules  int      `json:"rules"`
	Errors []string `json:"errors"`
}

func main() {
	root := flag.String("root", ".", "root of the repository")
	var targets []*targetgroup.Group
	flag.Func("target", "NAME=HOST:PORT to be scraped; may be repeated", func(text string) error {
		name, address, ok := strings.Cut(text, "=")
		if !ok {
			return fmt.Errorf("%q is not NAME=HOST:PORT", text)
		}
		targets = append(targets, &targetgroup.Group{Source: name, Targets: []model.LabelSet{{model.AddressLabel: model.LabelValue(address), "process": model.LabelValue(name)}}})
		return nil
	})
	flag.Parse()
	r, err := observe(*root, targets)
	if err == nil {
		err = json.NewEncoder(os.Stdout).Encode(r)
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "observe:", err)
		os.Exit(1)
	}
}

// observe until the input ends, then query.
func observe(root string, targets []*targetgroup.Group) (*result, error) {
	dir, err := os.MkdirTemp("", "observe")
	if err != nil {
		return nil, err
	}
	defer os.RemoveAll(dir)
	quiet := slog.New(slog.DiscardHandler)
	db, err := tsdb.Open(dir, quiet, nil, tsdb.DefaultOptions(), nil)
	if err != nil {
		return nil, err
	}
	defer db.Close()
	p := parser.NewParser(parser.Options{})
	engine := promql.NewEngine(promql.EngineOpts{Logger: quiet, MaxSamples: 50_000_000, Timeout: queryTimeout, Parser: p, EnableAtModifier: true, EnableNegativeOffset: true})
	defer engine.Close()
	manager := promrules.NewManager(&promrules.ManagerOptions{QueryFunc: promrules.EngineQueryFunc(engine, db), AppendableV2: db, Queryable: db, Context: context.Background(),
		NotifyFunc: func(context.Context, string, ...*promrules.Alert) {}, Logger: quiet, Registerer: prometheus.NewRegistry(), ExternalURL: &url.URL{}, Parser: p})
	files, err := filepath.Glob(filepath.Join(root, "deploy/alerts/*.yaml"))
	if err != nil {
		return nil, err
	}
	if err := manager.Update(every, files, labels.EmptyLabels(), "", nil); err != nil {
		return nil, err
	}
	scraper, err := startScraper(db, quiet, targets)
	if err != nil {
		return nil, err
	}
	go manager.Run()
	began := time.Now()
	_, err = io.Copy(io.Discard, os.Stdin)
	ended := time.Now()
	manager.Stop()
	scraper.Stop()
	if err != nil {
		return nil, err
	}
	r, err := ask(root, manager.Rules(), engine, db, began, ended)
	if err != nil {
		return nil, err
	}
	for _, rule := range manager.Rules() {
		r.Rules++
		if err := rule.LastError(); err != nil {
			r.Errors = append(r.Errors, fmt.Sprintf("rule %s: %v", rule.Name(), err))
		}
	}
	return r, nil
}

func startScraper(db *tsdb.DB, logger *slog.Logger, targets []*targetgroup.Group) (*scrape.Manager, error) {
	cfg, err := config.Load(fmt.Sprintf("global: {scrape_interval: %s, scrape_timeout: %s}\nscrape_configs: [{job_name: %s}]\n", every, every, job), logger)
	if err != nil {
		return nil, err
	}
	m, err := scrape.NewManager(&scrape.Options{}, logger, nil, nil, db, prometheus.NewRegistry())
	if err != nil {
		return nil, err
	}
	if err := m.ApplyConfig(cfg); err != nil {
		return nil, err
	}
	sets := make(chan map[string][]*targetgroup.Group, 1)
	sets <- map[string][]*targetgroup.Group{job: targets}
	go func() { _ = m.Run(sets) }()
	return m, nil
}

// ask every query of the dashboards and every selector of rules over a time.
func ask(root string, list []promrules.Rule, engine *promql.Engine, db *tsdb.DB, began, ended time.Time) (*result, error) {
	panels, err := rules.Panels(root)
	if err != nil {
		return nil, err
	}
	r := &result{Samples: map[string]int{}, Selected: map[string]int{}}
	count := func(into map[string]int, where, query string) {
		q, err := engine.NewRangeQuery(context.Background(), db, nil, query, began, ended, step)
		if err != nil {
			r.Errors = append(r.Errors, fmt.Sprintf("%s: %v", where, err))
			return
		}
		defer q.Close()
		matrix, err := q.Exec(context.Background()).Matrix()
		if err != nil {
			r.Errors = append(r.Errors, fmt.Sprintf("%s: %v", where, err))
		}
		into[where] = 0
		for _, series := range matrix {
			into[where] += len(series.Floats)
		}
	}
	for _, p := range panels {
		for i, target := range p.Targets {
			count(r.Samples, p.Where(i), rules.Expression(target.Expr, rateInterval, ".*"))
		}
	}
	for _, selector := range selectors(list) {
		count(r.Selected, selector, selector)
	}
	return r, nil
}

// selectors of rules, without their time, sorted.
func selectors(list []promrules.Rule) []string {
	found := map[string]bool{}
	for _, rule := range list {
		parser.Inspect(rule.Query(), func(n parser.Node, _ []parser.Node) error {
			if v, ok := n.(*parser.VectorSelector); ok {
				alone := &parser.VectorSelector{Name: v.Name, LabelMatchers: v.LabelMatchers}
				found[alone.String()] = true
			}
			return nil
		})
	}
	return slices.Sorted(maps.Keys(found))
}
