package boot

import (
	"context"
	"fmt"
	"sync"
	"time"

	"github.com/rs/zerolog"
	"golang.org/x/sync/errgroup"
	"k8s.io/client-go/kubernetes"

	"millwright/tools/ec2sim/sim/instance"
	"millwright/tools/ec2sim/simclient"
)

// Cloud is what the runner needs from the simulated account; *sim.Server implements it.
type Cloud interface {
	Machines() []instance.Machine
	SetProgress(id string, p instance.Progress)
	Settings() simclient.Settings
	Changed() <-chan struct{}
	Now() time.Time
}

// Config of a Runner.
type Config struct {
	Cloud   Cloud
	Kube    kubernetes.Interface
	Cluster Cluster
	// MemoryOverhead in millionths; 0 means DefaultMemoryOverhead.
	MemoryOverhead int64
	// DeleteNodes removes the Node of each terminated instance, as a cloud controller does after a while;
	// else only those that Millwright had not registered are removed, which nobody else would ever delete.
	DeleteNodes bool
	Log         zerolog.Logger
}

// Runner boots the instances of a simulated account into a cluster.
type Runner struct {
	cfg Config

	mu     sync.Mutex
	busy   map[string]bool      // instances that a worker is handling
	retry  map[string]time.Time // not before
	failed map[string]int       // failures in a row
}

// New returns a runner; Run starts it.
func New(cfg Config) *Runner {
	if cfg.MemoryOverhead == 0 {
		cfg.MemoryOverhead = DefaultMemoryOverhead
	}
	return &Runner{cfg: cfg, busy: map[string]bool{}, retry: map[string]time.Time{}, failed: map[string]int{}}
}

const (
	// tick is how often the runner looks for steps that have become due.
	tick = 100 * time.Millisecond
	// workers bounds the calls to the API server at a time.
	workers = 16
	// callTimeout bounds one step, so that a hanging API server does not hold its worker forever.
	callTimeout = 10 * time.Second
	// maxBackoff bounds the wait after failures in a row.
	maxBackoff = 5 * time.Second
)

// Run boots and stops until the context ends, then waits for the workers.
func (r *Runner) Run(ctx context.Context) error {
	group, ctx := errgroup.WithContext(ctx)
	group.SetLimit(workers)
	ticker := time.NewTicker(tick)
	defer ticker.Stop()
	for {
		changed := r.cfg.Cloud.Changed()
		for _, w := range r.due() {
			group.Go(func() error {
				r.work(ctx, w)
				return nil
			})
		}
		select {
		case <-ctx.Done():
			return group.Wait()
		case <-changed:
		case <-ticker.C:
		}
	}
}

// todo is one step for one machine.
type todo struct {
	machine instance.Machine
	step    step
}

// due claims the machines that have a step to take and no worker yet.
func (r *Runner) due() []todo {
	machines, settings, now := r.cfg.Cloud.Machines(), r.cfg.Cloud.Settings(), r.cfg.Cloud.Now()
	r.mu.Lock()
	defer r.mu.Unlock()
	var out []todo
	for _, m := range machines {
		s := next(&m, settings, now)
		if s == nothing || r.busy[m.ID] || time.Now().Before(r.retry[m.ID]) {
			continue
		}
		r.busy[m.ID] = true
		out = append(out, todo{m, s})
	}
	return out
}

// work takes a step and keeps the progress; on failure the machine waits, longer each time.
func (r *Runner) work(ctx context.Context, w todo) {
	ctx, cancel := context.WithTimeout(ctx, callTimeout)
	defer cancel()
	progress, err := r.takeStep(ctx, w)
	if err == nil {
		r.cfg.Cloud.SetProgress(w.machine.ID, progress)
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	delete(r.busy, w.machine.ID)
	if err == nil {
		delete(r.retry, w.machine.ID)
		delete(r.failed, w.machine.ID)
		return
	}
	r.failed[w.machine.ID]++
	wait := min(maxBackoff, 100*time.Millisecond<<min(r.failed[w.machine.ID]-1, 6))
	r.retry[w.machine.ID] = time.Now().Add(wait)
	r.cfg.Log.Warn().Err(err).Str("instance", w.machine.ID).Str("step", string(w.step)).Dur("retry_in", wait).
		Msg("could not bring the node on")
}

// takeStep carries a step out and returns the progress made.
func (r *Runner) takeStep(ctx context.Context, w todo) (instance.Progress, error) {
	m, p := &w.machine, w.machine.Progress
	var err error
	switch w.step {
	case register:
		return r.register(ctx, m)
	case hand:
		p.Alive, p.Stopped = true, false
		err = r.manage(ctx, p.Node)
	case publish:
		p.Devices = true
		err = r.publish(ctx, m)
	case stop:
		p.Stopped = true
		err = r.stop(ctx, p.Node)
	case remove:
		p.Deleted = true
		err = r.remove(ctx, m)
	}
	if err != nil {
		return p, fmt.Errorf("%s node %s: %w", w.step, p.Node, err)
	}
	r.cfg.Log.Debug().Str("instance", m.ID).Str("node", p.Node).Str("step", string(w.step)).Msg("node brought on")
	return p, nil
}
