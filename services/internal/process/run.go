package process

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"
	"github.com/rs/zerolog"
	"golang.org/x/sync/errgroup"

	"millwright/store"
)

// DrainTimeout is how long effects may go on after the process was told to stop.
const DrainTimeout = 10 * time.Second

// Config of a process.
type Config struct {
	Settings Settings
	Version  string
	Logger   zerolog.Logger
	Registry *prometheus.Registry
	// Build connects to what the process needs. It is called once the endpoints listen.
	Build func(ctx context.Context) (*Parts, error)
}

// Parts of a process that work until it is told to stop.
type Parts struct {
	// Background runs leading or not: folding, informers. One that ends early ends the process.
	Background []func(context.Context) error
	// Units are elected each by its own.
	Units   []Unit
	Elector store.Elector
	// Fit reports why no unit may lead for now: each gives up its leadership, or waits with its candidacy, until it may. May be nil.
	Fit func() error
	// Ready are checks of /readyz, Healthy of /healthz.
	Ready, Healthy []Check
	// Close closes what Build opened, after all else has ended.
	Close func() error
}

// Unit is a part of which only one instance in the cluster works at a time.
type Unit struct {
	// Name is the service's.
	Name string
	// Lead works until ctx ends (the process stops), the leadership is lost, or an error.
	Lead func(ctx context.Context, l store.Leadership) error
	// RunDegraded carries on after the leadership was lost because the log is out of reach, until ctx ends or the log answers
	// again; it returns at once if it does. nil: nothing is done without leadership.
	RunDegraded func(ctx context.Context) error
	// Deposable: see store.Candidacy.
	Deposable bool
	// Failed reports why the unit must not lead, for good; nil: it may. May be nil.
	Failed func() error
}

// fitEvery is how often Fit is asked.
const fitEvery = 200 * time.Millisecond

// Run runs the process until ctx ends.
func Run(ctx context.Context, cfg Config) error {
	limitMemory(cfg.Settings.MemoryLimit)
	registerBuild(cfg.Registry, cfg.Version)
	healthy, ready := &checks{}, &checks{}
	built := &flag{text: "still connecting"}
	ready.add(Check{"started", built.check})
	healthy.add(Check{"ping", func() error { return nil }})
	endpoints, err := listen(cfg.Settings, cfg.Registry, healthy, ready, cfg.Logger)
	if err != nil {
		return err
	}
	defer endpoints.shutdown()
	parts, err := cfg.Build(ctx)
	if err != nil {
		return fmt.Errorf("start: %w", err)
	}
	healthy.add(parts.Healthy...)
	ready.add(parts.Ready...)
	leaders := newRota(parts, cfg.Settings.Instance(), time.Now, cfg.Registry)
	if len(parts.Units) > 0 {
		ready.add(leaders.check())
		parts.Background = append(parts.Background, leaders.run)
	}
	built.set()
	err = parts.run(ctx, cfg, leaders)
	if parts.Close != nil {
		err = errors.Join(err, parts.Close())
	}
	return err
}

// run stops in reverse order: first the units, each with its effects and its leadership, then the background.
func (p *Parts) run(ctx context.Context, cfg Config, leaders *rota) error {
	ctx, stop := context.WithCancelCause(ctx)
	defer stop(nil)
	backCtx, stopBack := context.WithCancel(context.WithoutCancel(ctx))
	defer stopBack()
	var back, units errgroup.Group
	for _, fn := range p.Background {
		back.Go(func() error {
			err := fn(backCtx)
			if backCtx.Err() == nil {
				if err == nil {
					err = errors.New("background task ended early")
				}
				stop(err)
			}
			return err
		})
	}
	for _, u := range p.Units {
		c := candidate{unit: u, elector: p.Elector, fit: p.Fit, identity: cfg.Settings.Instance(), info: cfg.info(u.Name),
			logger: cfg.Logger.With().Str("service", u.Name).Logger(), leads: func(leading bool) { leaders.leads(u.Name, leading) }}
		units.Go(func() error { return c.run(ctx) })
	}
	<-ctx.Done()
	cfg.Logger.Info().Msg("stopping")
	err := units.Wait()
	stopBack()
	if backErr := back.Wait(); backErr != nil && !errors.Is(backErr, context.Canceled) {
		err = errors.Join(err, backErr)
	}
	return err
}

func registerBuild(r *prometheus.Registry, version string) {
	r.MustRegister(collectors.NewGoCollector(), collectors.NewProcessCollector(collectors.ProcessCollectorOpts{}))
	info := prometheus.NewGaugeVec(prometheus.GaugeOpts{Namespace: "karpenter", Name: "build_info",
		Help: "Version of the running binary."}, []string{"version", "goversion", "goarch", "commit"})
	info.WithLabelValues(buildLabels(version)...).Set(1)
	r.MustRegister(info)
}
