package ec2

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"sync/atomic"
	"time"

	"github.com/cenkalti/backoff/v4"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/rs/zerolog"
	"golang.org/x/sync/errgroup"

	karpawsv1 "millwright/api/karpenteraws/v1"
	"millwright/events"
	"millwright/services/internal/ec2"
)

// Emitter takes observations; *watcher.Watcher is one. What it refuses is emitted again by the next poll.
type Emitter interface {
	Emit(kind events.Kind, op events.Op, uid, name string, object any) error
	Polled(kind events.Kind, at time.Time)
	Blobs() events.Blobs
}

// Options are the operator's settings that change what is computed.
type Options struct {
	// VMMemoryOverheadPercent is the fraction of memory the hypervisor takes; from 0 to below 1.
	VMMemoryOverheadPercent float64
	ReservedENIs            int
	// IsolatedVPC: the price API cannot be reached; the built-in on-demand prices are used.
	IsolatedVPC bool
}

// Intervals between polls; a zero takes the default.
type Intervals struct {
	// Types of instances and their offerings, default 12 h; OnDemand prices, default 12 h; each up to a tenth
	// later.
	Types, OnDemand time.Duration
	// Spot prices, default 5 min; Instances, default 10 s.
	Spot, Instances time.Duration
	// Reservations of capacity, default 1 min; asked about while a NodeClass has some.
	Reservations time.Duration
	// Outposts and what they have, default 5 min.
	Outposts time.Duration
	// Status of our instances, default 1 min.
	Status time.Duration
	// Shifts of zones, default 30 s; asked about with Config.Shifts.
	Shifts time.Duration
	// Classes: how often NodeClasses are compared with their catalogues, default 1 s.
	Classes time.Duration
}

// Config of a Poller. EC2, Pricing, Region, Cluster and Classes are required.
type Config struct {
	EC2     EC2
	Pricing Pricing
	Region  string
	// Cluster is the name in the tags of our instances.
	Cluster string
	// Classes lists the EC2NodeClasses as the API server has them, status included. They are not changed.
	Classes   func() []*karpawsv1.EC2NodeClass
	Options   Options
	Intervals Intervals
	// Shifts is nil if zonal shifts are not asked about.
	Shifts *ShiftConfig

	Clock      func() time.Time
	Logger     zerolog.Logger
	Registerer prometheus.Registerer
}

// Poller polls AWS while Run runs. Its methods may be called from anywhere.
type Poller struct {
	cfg     Config
	emitter Emitter
	metrics *metrics
	tasks   []*task

	offered  atomic.Pointer[offered]
	reserved atomic.Pointer[reserved]
	outposts atomic.Pointer[outposts]
	// shifted is nil as long as it is not known. clusterARN belongs to its poll; began is when the poller
	// was made.
	shifted    atomic.Pointer[shifted]
	clusterARN string
	began      time.Time
	catalogs   catalogs
	prices     prices
	instances  instances
	statuses   statuses
}

// New returns a Poller that emits to e. It makes no call.
func New(cfg Config, e Emitter) (*Poller, error) {
	if cfg.EC2 == nil || cfg.Pricing == nil || cfg.Classes == nil || cfg.Region == "" || cfg.Cluster == "" {
		return nil, errors.New("new AWS poller: clients, region, cluster and classes are required")
	}
	if _, err := newSizing(&karpawsv1.EC2NodeClass{}, cfg.Options); err != nil {
		return nil, fmt.Errorf("new AWS poller: %w", err)
	}
	if cfg.Clock == nil {
		cfg.Clock = time.Now
	}
	p := &Poller{cfg: cfg, emitter: e, metrics: newMetrics(cfg.Registerer), began: cfg.Clock()}
	i := cfg.Intervals
	p.tasks = []*task{
		newTask("instance_types", or(i.Types, 12*time.Hour), true, p.pollTypes),
		newTask("on_demand_prices", or(i.OnDemand, 12*time.Hour), true, p.pollOnDemand).instead(p.emitBuiltInPrices),
		newTask("spot_prices", or(i.Spot, 5*time.Minute), false, p.pollSpot).instead(p.emitBuiltInPrices),
		newTask("instances", or(i.Instances, 10*time.Second), false, p.pollInstances),
		newTask("capacity_reservations", or(i.Reservations, time.Minute), false, p.pollReservations),
		newTask("outposts", or(i.Outposts, 5*time.Minute), false, p.pollOutposts),
		newTask("instance_status", or(i.Status, time.Minute), false, p.pollStatus),
		newTask("nodeclasses", or(i.Classes, time.Second), false, p.pollClasses),
	}
	if cfg.Shifts != nil {
		p.tasks = append(p.tasks, newTask("zonal_shifts", or(i.Shifts, 30*time.Second), false, p.pollShifts).instead(p.recallShifts))
	}
	return p, nil
}

func or(d, otherwise time.Duration) time.Duration {
	if d > 0 {
		return d
	}
	return otherwise
}

// Run polls until ctx ends. A poll that fails is logged and tried again, from 1 s to 1 min later.
func (p *Poller) Run(ctx context.Context) error {
	g, ctx := errgroup.WithContext(ctx)
	for _, t := range p.tasks {
		g.Go(func() error { return p.repeat(ctx, t) })
	}
	return g.Wait()
}

// Synced reports that each poll succeeded once, so that what was emitted is all there is. Prices that AWS
// does not report count as soon as others stand in for them.
func (p *Poller) Synced() bool {
	for _, t := range p.tasks {
		if !slices.Contains(notWaitedFor, t.name) && !t.succeeded.Load() && !t.standsIn.Load() {
			return false
		}
	}
	return true
}

// notWaitedFor: until they are known no reserved capacity is free, all instances are well and no subnet is
// on an Outpost.
var notWaitedFor = []string{"capacity_reservations", "instance_status", "outposts"}

// Resync polls all again soon, and emits all of it again. It does not block.
func (p *Poller) Resync() {
	p.catalogs.emitAllAgain()
	p.prices.emitAllAgain()
	p.instances.emitAllAgain()
	p.statuses.emitAllAgain()
	for _, t := range p.tasks {
		t.soon()
	}
}

// ClassesChanged asks to look at the NodeClasses now rather than at the next interval. It does not block.
func (p *Poller) ClassesChanged() { p.task("nodeclasses").soon() }

func (p *Poller) task(name string) *task {
	for _, t := range p.tasks {
		if t.name == name {
			return t
		}
	}
	panic("no such task: " + name)
}

// task is one kind of poll.
type task struct {
	name  string
	every time.Duration
	// jitter: up to a tenth of the interval is added, so that many clusters of an account do not ask at once.
	jitter    bool
	poll      func(ctx context.Context) error
	poke      chan struct{}
	succeeded atomic.Bool
	// otherwise gives something else for what the poll did not get when it failed, or takes longer than
	// patience; nil: nothing does.
	otherwise func() error
	standsIn  atomic.Bool
}

// patience is how long the first prices are waited for before others stand in for them.
const patience = 3 * time.Second

func (t *task) instead(otherwise func() error) *task {
	t.otherwise = otherwise
	return t
}

// standIn notes that something else was given.
func (t *task) standIn() error {
	if t.otherwise == nil || t.succeeded.Load() || t.standsIn.Load() {
		return nil
	}
	if err := t.otherwise(); err != nil {
		return err
	}
	t.standsIn.Store(true)
	return nil
}

// pollPatiently polls; something else stands in for what comes late or not at all.
func (t *task) pollPatiently(ctx context.Context) error {
	polled := make(chan error, 1)
	go func() { polled <- t.poll(ctx) }()
	late := time.NewTimer(patience)
	defer late.Stop()
	var early error
	for {
		select {
		case err := <-polled:
			if err != nil {
				err = errors.Join(err, t.standIn())
			}
			return errors.Join(err, early)
		case <-late.C:
			early = t.standIn()
		}
	}
}

func newTask(name string, every time.Duration, jitter bool, poll func(context.Context) error) *task {
	return &task{name: name, every: every, jitter: jitter, poll: poll, poke: make(chan struct{}, 1)}
}

func (t *task) soon() {
	select {
	case t.poke <- struct{}{}:
	default: // asked already
	}
}

func (t *task) pause() time.Duration {
	if t.jitter {
		return t.every + rand.N(t.every/10+1)
	}
	return t.every
}

func (p *Poller) repeat(ctx context.Context, t *task) error {
	p.metrics.expose(t.name)
	retry := backoff.NewExponentialBackOff(backoff.WithInitialInterval(time.Second), backoff.WithMaxInterval(time.Minute), backoff.WithMaxElapsedTime(0))
	for {
		err := t.pollPatiently(ctx)
		if ctx.Err() != nil {
			return ctx.Err()
		}
		wait := t.pause()
		switch {
		case errors.Is(err, errNotYet):
			wait = time.Second
		case err != nil:
			wait = min(retry.NextBackOff(), max(wait, time.Second))
			p.cfg.Logger.Warn().Str("error", ec2.Text(err)).Str("poll", t.name).Dur("retry_in", wait).Msg("poll of aws failed")
		default:
			retry.Reset()
			t.succeeded.Store(true)
		}
		p.metrics.polled(t.name, err, p.cfg.Clock())
		if err := t.wait(ctx, wait); err != nil {
			return err
		}
	}
}

// errNotYet: what the poll needs is still being learnt by another.
var errNotYet = errors.New("not yet")

func (t *task) wait(ctx context.Context, d time.Duration) error {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-ctx.Done():
		return ctx.Err()
	case <-t.poke:
	case <-timer.C:
	}
	return nil
}
