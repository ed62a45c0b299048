// Command scrape reads a configuration of Prometheus, has Prometheus' own scraper ask each target of its
// static_configs once, and prints as JSON what came of it, by address. The end-to-end tests run it with what
// a ServiceMonitor of the chart asks for.
//
//	scrape --config prometheus.yaml
package main

import (
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"log/slog"
	"os"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/common/model"
	"github.com/prometheus/prometheus/config"
	"github.com/prometheus/prometheus/discovery"
	"github.com/prometheus/prometheus/discovery/targetgroup"
	"github.com/prometheus/prometheus/scrape"
	"github.com/prometheus/prometheus/tsdb"
)

const (
	// limit bounds the whole run; lookEvery is how often it looks whether all targets have been asked.
	limit     = 2 * time.Minute
	lookEvery = 50 * time.Millisecond
)

// result of one target.
type result struct {
	// Health is "up" or "down", as on Prometheus' page of targets, and Error what it says there.
	Health scrape.TargetHealth `json:"health"`
	Error  string              `json:"error,omitempty"`
	// Series that all targets together gave.
	Series uint64 `json:"series"`
}

func main() {
	file := flag.String("config", "", "configuration of Prometheus, whose scrape_configs have static_configs")
	flag.Parse()
	ctx, cancel := context.WithTimeout(context.Background(), limit)
	defer cancel()
	results, err := run(ctx, *file)
	if err == nil {
		err = json.NewEncoder(os.Stdout).Encode(results)
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "scrape:", err)
		os.Exit(1)
	}
}

func run(ctx context.Context, file string) (map[string]result, error) {
	quiet := slog.New(slog.DiscardHandler)
	cfg, err := config.LoadFile(file, false, quiet)
	if err != nil {
		return nil, err
	}
	sets, count, err := static(cfg)
	if err != nil {
		return nil, err
	}
	dir, err := os.MkdirTemp("", "scrape")
	if err != nil {
		return nil, err
	}
	defer os.RemoveAll(dir)
	db, err := tsdb.Open(dir, quiet, nil, tsdb.DefaultOptions(), nil)
	if err != nil {
		return nil, err
	}
	defer db.Close()
	m, err := scrape.NewManager(&scrape.Options{}, quiet, nil, nil, db, prometheus.NewRegistry())
	if err != nil {
		return nil, err
	}
	if err := m.ApplyConfig(cfg); err != nil {
		return nil, err
	}
	discovered := make(chan map[string][]*targetgroup.Group, 1)
	discovered <- sets
	go func() { _ = m.Run(discovered) }()
	defer m.Stop()
	return await(ctx, m, count, db.Head())
}

// static are the targets by job, and their number.
func static(cfg *config.Config) (map[string][]*targetgroup.Group, int, error) {
	jobs, err := cfg.GetScrapeConfigs()
	if err != nil {
		return nil, 0, err
	}
	sets, count := map[string][]*targetgroup.Group{}, 0
	for _, job := range jobs {
		for _, d := range job.ServiceDiscoveryConfigs {
			groups, ok := d.(discovery.StaticConfig)
			if !ok {
				return nil, 0, fmt.Errorf("job %s has %s_sd_configs, not only static_configs", job.JobName, d.Name())
			}
			sets[job.JobName] = append(sets[job.JobName], groups...)
			for _, g := range groups {
				count += len(g.Targets)
			}
		}
	}
	if count == 0 {
		return nil, 0, errors.New("no targets")
	}
	return sets, count, nil
}

// await until all targets have been asked.
func await(ctx context.Context, m *scrape.Manager, count int, head *tsdb.Head) (map[string]result, error) {
	for {
		results := map[string]result{}
		for _, targets := range m.TargetsActive() {
			for _, t := range targets {
				if t.Health() == scrape.HealthUnknown {
					continue
				}
				r := result{Health: t.Health(), Series: head.NumSeries()}
				if err := t.LastError(); err != nil {
					r.Error = err.Error()
				}
				results[t.GetValue(model.AddressLabel)] = r
			}
		}
		if len(results) == count {
			return results, nil
		}
		select {
		case <-ctx.Done():
			return nil, fmt.Errorf("%d of %d targets were asked: %w", len(results), count, ctx.Err())
		case <-time.After(lookEvery):
		}
	}
}
