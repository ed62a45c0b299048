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
	"k8s.io/client-go/kubernetes"

	"millwright/planner/options"
	"millwright/store"
)

// DrainTimeout is how long effects may continue after the process was told to stop.
const DrainTimeout = 10 * time.Second

// Config of a process.
type Config struct {
	Settings Settings
	Version  string
	Logger   zerolog.Logger
	Registry *prometheus.Registry
	// Kube is the API server that says who may scrape; it is called once, with MetricsAuthorization alone.
	Kube func() (kubernetes.Interface, error)
	// Build connects to what the process needs. It is called once the endpoints listen.
	Build func(ctx context.Context) (*Parts, error)
}

// Parts of a process that work until it is told to stop.
type Parts struct {
	// Background runs leading or not: folding, informers. One that ends early ends the process.
	Background []func(context.Context) error
	// Units each have an election of their own.
	Units   []Unit
	Elector store.Elector
	// Fit returns why no unit may lead for now: each gives up its leadership, or waits with its candidacy,
	// until it may. May be nil.
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
	// RunDegraded carries on after the leadership was lost because the log is unreachable, until ctx ends or
	// the log answers again; it returns at once if it does. nil: nothing is done without leadership.
	RunDegraded func(ctx context.Context) error
	// Deposable: see store.Candidacy.
	Deposable bool
	// Failed returns why the unit must never lead again; nil: it may. May be nil.
	Failed func() error
	// Follows: the unit records nothing, so its candidacy says nothing of options and modes.
	Follows bool
}

// fitEvery is how often Fit is called.
const fitEvery = 200 * time.Millisecond

// Run runs the process until ctx ends.
func Run(ctx context.Context, cfg Config) error {
	limitMemory(cfg.Settings.MemoryLimit)
	registerBuild(cfg.Registry, cfg.Version)
	warnOfUnknownGates(cfg)
	healthy, ready := &checks{}, &checks{}
	built := &flag{text: "still connecting"}
	ready.addChecks(Check{"started", built.check})
	healthy.addChecks(Check{"ping", func() error { return nil }})
	var core kubernetes.Interface
	if cfg.Settings.MetricsAuthorization {
		if cfg.Kube == nil {
			return errors.New("start: --metrics-authorization needs an API server, which this process does not ask")
		}
		var err error
		if core, err = cfg.Kube(); err != nil {
			return fmt.Errorf("start: %w", err)
		}
	}
	endpoints, err := listen(cfg.Settings, cfg.Registry, healthy, ready, core, cfg.Logger)
	if err != nil {
		return err
	}
	defer endpoints.shutdown()
	parts, err := cfg.Build(ctx)
	if err != nil {
		return fmt.Errorf("start: %w", err)
	}
	healthy.addChecks(parts.Healthy...)
	ready.addChecks(parts.Ready...)
	leaders := newRota(parts, cfg.Settings.Instance(), time.Now, cfg.Registry)
	if len(parts.Units) > 0 {
		ready.addChecks(leaders.check())
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
		c := candidate{unit: u, elector: p.Elector, fit: p.Fit, identity: cfg.Settings.Instance(), info: cfg.info(u),
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

// warnOfUnknownGates names gates that are misspelt, or of a newer version: what they should switch stays as
// it is.
func warnOfUnknownGates(cfg Config) {
	if unknown := options.UnknownFeatureGates(cfg.Settings.FeatureGates); len(unknown) > 0 {
		cfg.Logger.Warn().Strs("unknown", unknown).Strs("known", options.FeatureGates()).Msg("feature gates that are not known are ignored")
	}
}

func registerBuild(r *prometheus.Registry, version string) {
	r.MustRegister(collectors.NewGoCollector(), collectors.NewProcessCollector(collectors.ProcessCollectorOpts{}))
	newBuildGauge(r).WithLabelValues(buildLabels(version)...).Set(1)
}
