package sim

import (
	"cmp"
	"context"
	"fmt"
	"io"
	"maps"
	"math/rand/v2"
	"slices"
	"time"

	"github.com/rs/zerolog"

	"millwright/events"
	"millwright/events/membus"
	"millwright/planner"
	"millwright/planner/ledger"
	"millwright/services/disruptor"
	"millwright/services/internal/service"
	"millwright/services/lifecycle"
	"millwright/services/lifecycle/launch"
	"millwright/services/provisioner"
	"millwright/services/sim/clock"
	"millwright/services/sim/cloud"
	"millwright/services/sim/cluster"
	"millwright/services/terminator"
	"millwright/store"
	"millwright/store/audit"
	"millwright/store/memlog"
)

// Config of a run.
type Config struct {
	Seed uint64
	// Faults replaces the drawn ones.
	Faults *Faults
	// ConvergeMax is how long the system may take to come to rest; 0: 25 minutes.
	ConvergeMax time.Duration
	// Trace gets a line for everything that happens; nil: nothing.
	Trace io.Writer
	// Wrap lets tests put a bug between a service and what it uses.
	Wrap Wrap
}

// Wrap holds what tests replace; nil members change nothing.
type Wrap struct {
	Kube        func(process string, k Kube) Kube
	EC2         func(e lifecycle.EC2) lifecycle.EC2
	Host        func(h service.Host) service.Host
	Observation func(process string, o events.Observation) events.Observation
	Entry       func(process string, e ledger.Entry) ledger.Entry
	Append      func(l store.Log, d store.Draft) (store.Record, error)
}

const (
	clusterName   = "sim"
	nodeClassName = "default"
)

// start of every run.
var start = time.Date(2026, 3, 2, 10, 0, 0, 0, time.UTC)

// Sim is one run.
type Sim struct {
	cfg    Config
	rng    *rand.Rand
	faults Faults
	drawn  Faults
	clock  *clock.Clock
	stats  Stats
	failed *Violation

	cluster *cluster.Cluster
	cloud   *cloud.Cloud
	options planner.Options
	script  script

	log     *memlog.Log
	elector *memlog.Elector
	// entries are the records decoded; reference is their fold, always up to date.
	entries      []ledger.Entry
	reference    *ledger.Ledger
	acknowledged map[uint64][32]byte
	// refolded is the fold of the log's bytes up to the last check.
	refolded *ledger.Ledger

	stream       *membus.Stream
	incarnation  string
	messages     []events.Observation
	checkpointed uint64
	watcher      *publisher
	// market is what EC2 offers at which price when that has changed; nil: as in the beginning.
	market *cloud.Market

	// alive is the process of each service that works or wants to; all are those that ever were.
	alive     map[string]*process
	all       []*process
	processes int
	// running is the coroutine that runs; acting is whose call takes place.
	running *coroutine
	acting  *process

	// eager: heartbeats have services stepped too.
	eager   bool
	history history
	book    *book
	// wrong is how far the clock of a service's machine is ahead while it is off.
	wrong map[string]time.Duration
	// away is until when a target cannot be reached.
	away         map[target]time.Time
	logAwaySince time.Time
	operator     operator
	// calmed is when faults stopped.
	calmed time.Time
}

// Stats counts what happened.
type Stats struct {
	Events, Steps, Effects, Calls, Messages, Records, Conflicts, Crashes, Freezes, Renewals, StoodDown, KubeEvents int
	Pods, Claims, Widened, Confirmed, Instances, Replayed, Retired                                                 int
	Virtual                                                                                                        time.Duration
}

func (s Stats) String() string {
	return fmt.Sprintf("%s virtual, %d events, %d steps, %d effects, %d calls, %d messages, %d records, %d conflicts, %d crashes, %d freezes, clocks off %d times, %d claims (widened %d times), %d instances, %d decisions replayed (%d confirmed plans), %d aggregates retired",
		s.Virtual.Round(time.Second), s.Events, s.Steps, s.Effects, s.Calls, s.Messages, s.Records, s.Conflicts, s.Crashes, s.Freezes, s.StoodDown, s.Claims, s.Widened, s.Instances, s.Replayed, s.Confirmed, s.Retired)
}

// Result of a run.
type Result struct {
	Seed   uint64
	Faults Faults
	Stats  Stats
	// Head of the log: equal for equal histories.
	Head store.Head
	// Violation is nil if everything held.
	Violation *Violation
}

// Violation is a check that failed.
type Violation struct {
	Check string
	Text  string
	// At is how far into the run it was.
	At time.Duration
}

func (v *Violation) Error() string { return fmt.Sprintf("%s (at %s): %s", v.Check, v.At, v.Text) }

// Run simulates one seed.
func Run(cfg Config) Result {
	s := newSim(cfg)
	s.trace("seed %d, faults: %s", cfg.Seed, s.drawn)
	s.play()
	for _, p := range s.all {
		p.killAll() // a parked coroutine would keep the whole run in memory
	}
	s.stats.Virtual = s.clock.Now().Sub(start)
	head, _ := s.log.Head(context.Background())
	s.stats.Instances, s.stats.Records = len(s.cloud.Instances()), len(s.entries)
	return Result{Seed: cfg.Seed, Faults: s.drawn, Stats: s.stats, Head: head, Violation: s.failed}
}

func newSim(cfg Config) *Sim {
	rng := rand.New(rand.NewPCG(cfg.Seed, 0x6d696c6c))
	s := &Sim{cfg: cfg, rng: rng, clock: clock.New(start), alive: map[string]*process{}, acknowledged: map[uint64][32]byte{}, history: newHistory(), away: map[target]time.Time{}, wrong: map[string]time.Duration{}}
	s.drawn = DrawFaults(rng)
	if cfg.Faults != nil {
		s.drawn = *cfg.Faults
	}
	s.faults = s.drawn
	log, err := memlog.Open(memlog.Config{Cluster: clusterName, LogID: fmt.Sprintf("%032x", cfg.Seed+1), Clock: s.clock.Now})
	if err != nil {
		panic(err)
	}
	s.log, s.elector = log, memlog.NewElector(log)
	s.reference = ledger.New(log.ID())
	s.book = newBook(log.ID())
	s.stream = membus.NewBus().Connect(1 << 20)
	state, _ := s.stream.State(context.Background())
	s.incarnation = state.Incarnation
	s.cluster, s.cloud = cluster.New(s.clock, rng), cloud.New(s.clock, rng)
	s.cloud.LagMax, s.cluster.SchedulerLate = s.faults.DescribeLag, s.faults.SchedulerLate
	s.readLog(nil)
	s.observe()
	s.script = s.drawScript()
	s.options = s.drawOptions()
	s.eager = s.happens(100)
	return s
}

// services in the order they are started.
var services = []string{ledger.ServiceProvisioner, ledger.ServiceLifecycle, ledger.ServiceTerminator, ledger.ServiceDisruptor}

// build constructs the service of a process over its own way to everything.
func (s *Sim) build(p *process) service.Service {
	var h service.Host = p
	if s.cfg.Wrap.Host != nil {
		h = s.cfg.Wrap.Host(p)
	}
	var api Kube = apiClient{p}
	if s.cfg.Wrap.Kube != nil {
		api = s.cfg.Wrap.Kube(p.name, api)
	}
	var ec2 lifecycle.EC2 = ec2Client{p}
	if s.cfg.Wrap.EC2 != nil {
		ec2 = s.cfg.Wrap.EC2(ec2)
	}
	logger := zerolog.Nop()
	switch p.name {
	case ledger.ServiceProvisioner:
		deps := provisioner.Deps{Logger: logger}
		if s.cfg.Seed%3 == 0 {
			deps.SearchMax = -1 // as if each search took long
		}
		return provisioner.New(h, deps)
	case ledger.ServiceDisruptor:
		return disruptor.New(h, disruptor.Deps{Kube: api, Logger: logger})
	case ledger.ServiceTerminator:
		return terminator.New(h, terminator.Deps{Cluster: p.view, Kube: api, Logger: logger})
	}
	launcher := launch.New(launch.Config{Cloud: s.cloud, Region: "eu-1", Now: p.Now, Cluster: func(context.Context) (launch.Cluster, error) {
		return launch.Cluster{Name: clusterName, Endpoint: "https://api.sim", CABundle: "Y2E=", CIDR: "10.100.0.0/16", DNS: "10.100.0.10", Version: "1.36"}, nil
	}})
	return lifecycle.New(h, lifecycle.Deps{Cluster: clusterName, Cache: p.view, Kube: api, EC2: ec2, Launcher: launcher, Logger: logger})
}

// observe connects cluster, cloud and checks.
func (s *Sim) observe() {
	s.cluster.Watch(func(kind events.Kind, before, after cluster.Object) {
		s.checkWrite(kind, before, after)
		if s.watcher != nil {
			s.watcher.changed()
		}
		if cluster.IsViewed(kind) {
			s.informersMoved()
		}
	})
	s.cloud.Watch(s.instanceMoved)
}

// informersMoved has the services that drive effects by informers notice a write.
func (s *Sim) informersMoved() {
	for _, name := range []string{ledger.ServiceLifecycle, ledger.ServiceTerminator} {
		if p := s.alive[name]; p != nil {
			p.changed("informers", toKube, s.faults.InformersLate, func() bool {
				p.view.Advance(s.cluster.Len())
				return true
			})
		}
	}
}

func (s *Sim) streamMoved() {
	for _, name := range services {
		if p := s.alive[name]; p != nil {
			p.changed("stream", nobody, s.faults.StreamLate, func() bool {
				poke := p.foldStream()
				s.checkpoint(p)
				return poke
			})
		}
	}
}

func (s *Sim) logMoved() {
	for _, name := range services {
		if p := s.alive[name]; p != nil {
			p.changed("log", toLog, s.faults.LogLate, func() bool {
				p.foldLog(uint64(len(s.entries)))
				return true
			})
		}
	}
}

// stored takes note of a record that was appended.
func (s *Sim) stored(by *process, rec store.Record) {
	s.trace("%s: record %d %s %v", by, rec.Seq, ledger.Kind(rec.Kind), rec.Subjects)
	if hash, ok := s.acknowledged[rec.Seq]; ok && hash != rec.Hash {
		s.violate(CheckLog, "record %d was acknowledged before, with another content", rec.Seq)
	}
	s.readLog(by)
	s.logMoved()
}

// readLog decodes what is new in the log and folds it into the reference.
func (s *Sim) readLog(*process) {
	records, err := s.log.Read(context.Background(), uint64(len(s.entries))+1, 100)
	if err != nil {
		s.violate("the log can be read", "%v", err)
		return
	}
	for _, rec := range records {
		e, err := audit.Decode(rec)
		if err == nil {
			err = s.reference.Apply(e)
		}
		if err != nil {
			s.violate("the log can be folded", "%v", err)
			return
		}
		s.entries = append(s.entries, e)
		s.checkRecord(e)
	}
}

// happens decides by a probability per thousand; it draws nothing for 0.
func (s *Sim) happens(perThousand int) bool {
	return perThousand > 0 && s.rng.IntN(1000) < perThousand
}

// millis draws a duration between two numbers of milliseconds.
func (s *Sim) millis(from, to int) time.Duration {
	return time.Duration(from)*time.Millisecond + time.Duration(s.rng.Int64N(int64(to-from)*int64(time.Millisecond)+1))
}

func (s *Sim) trace(format string, args ...any) {
	if s.cfg.Trace != nil {
		fmt.Fprintf(s.cfg.Trace, "%10.3f "+format+"\n", append([]any{s.clock.Now().Sub(start).Seconds()}, args...)...)
	}
}

// violate ends the run; only the first violation counts.
func (s *Sim) violate(check, format string, args ...any) {
	if s.failed == nil {
		s.failed = &Violation{Check: check, Text: fmt.Sprintf(format, args...), At: s.clock.Now().Sub(start)}
		s.trace("VIOLATION: %v", s.failed)
	}
}

func sortedKeys[K cmp.Ordered, V any](m map[K]V) []K { return slices.Sorted(maps.Keys(m)) }
