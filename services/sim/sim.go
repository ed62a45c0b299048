package sim

import (
	"context"
	"io"
	"time"

	"github.com/rs/zerolog"

	"millwright/events"
	"millwright/events/membus"
	"millwright/planner/ledger"
	"millwright/services/disruptor"
	"millwright/services/internal/service"
	"millwright/services/lifecycle"
	"millwright/services/lifecycle/launch"
	"millwright/services/provisioner"
	"millwright/services/sim/bargain"
	"millwright/services/sim/cloud"
	"millwright/services/sim/cluster"
	"millwright/services/sim/judge"
	"millwright/services/sim/stage"
	"millwright/services/sim/users"
	"millwright/services/sim/witness"
	"millwright/services/terminator"
	"millwright/store"
	"millwright/store/audit"
	"millwright/store/memlog"
)

// Config of a run.
type Config struct {
	Seed uint64
	// Faults replaces the drawn ones.
	Faults *stage.Faults
	// ConvergeMax is how long the system may take to come to rest; 0: 25 minutes.
	ConvergeMax time.Duration
	// Trace gets a line for everything that happens; nil: nothing.
	Trace io.Writer
	// Witness has the Result know what happened, to be asked about.
	Witness bool
	// Wrap lets tests put a bug between a service and what it uses.
	Wrap Wrap
}

// Wrap holds what tests replace; nil members change nothing.
type Wrap struct {
	Kube        func(process string, k Kube) Kube
	EC2         func(e lifecycle.EC2) lifecycle.EC2
	Cache       func(c lifecycle.Cache) lifecycle.Cache
	Host        func(h service.Host) service.Host
	Observation func(process string, o events.Observation) events.Observation
	Entry       func(process string, e ledger.Entry) ledger.Entry
	Append      func(l store.Log, d store.Draft) (store.Record, error)
}

// Sim is one run.
type Sim struct {
	*stage.Stage
	cfg      Config
	judge    *judge.Judge
	bargains *bargain.Judge
	users    *users.Users
	// witness is nil if nobody asks.
	witness *witness.Witness

	elector      *memlog.Elector
	checkpointed uint64
	watcher      *publisher
	// market is what EC2 offers at which price if that has changed; nil: as at the beginning.
	market *cloud.Market

	// alive is the process of each service that works or wants to; all are those that ever existed.
	alive     map[string]*process
	all       []*process
	processes int
	// running is the coroutine that runs; acting is the process whose call is being carried out.
	running *coroutine
	acting  *process

	// eager: heartbeats make services step too.
	eager bool
	// wrong is how far the clock of a service's machine is ahead while it is off.
	wrong map[string]time.Duration
	// away is until when a target cannot be reached.
	away         map[target]time.Time
	logAwaySince time.Time
	starved      starvations
}

// Result of a run.
type Result struct {
	Seed   uint64
	Faults stage.Faults
	Stats  stage.Stats
	// Head of the log: equal for equal histories.
	Head store.Head
	// Violation is nil if everything held.
	Violation *stage.Violation
	// Witness of what happened; nil if Config has none.
	Witness *witness.Witness
	// Log and Stream as they are at the end.
	Log    *memlog.Log
	Stream *membus.Stream
}

// Run simulates one seed.
func Run(cfg Config) Result {
	s := newSim(cfg)
	s.Trace("seed %d, faults: %s", cfg.Seed, s.Drawn)
	s.play()
	for _, p := range s.all {
		p.killAll() // a parked coroutine would keep the whole run in memory
	}
	s.Stats.Virtual = s.Clock.Now().Sub(stage.Start)
	head, _ := s.Log.Head(context.Background())
	s.Stats.Instances, s.Stats.Records = len(s.Cloud.Instances()), len(s.Entries)
	return Result{Seed: cfg.Seed, Faults: s.Drawn, Stats: s.Stats, Head: head, Violation: s.Failed, Witness: s.witness, Log: s.Log, Stream: s.Stream}
}

func newSim(cfg Config) *Sim {
	shared := stage.New(cfg.Seed, cfg.Faults, cfg.Trace)
	s := &Sim{Stage: shared, cfg: cfg, judge: judge.New(shared), bargains: bargain.New(shared), users: users.New(shared), elector: memlog.NewElector(shared.Log), starved: newStarvations(),
		alive: map[string]*process{}, away: map[target]time.Time{}, wrong: map[string]time.Duration{}}
	s.judge.Moved, s.users.Taken = s.users.Surprise, s.judge.Departures.CheckTaken
	s.users.BlockTaken = s.judge.Reservations.CheckTaken
	if cfg.Witness {
		s.witness = witness.New(shared, s.actingService)
	}
	s.readLog(nil)
	s.observe()
	s.users.Draw()
	s.eager = s.Happens(100)
	return s
}

// actingService is the one whose call is being carried out; "" if it is nobody's.
func (s *Sim) actingService() string {
	if s.acting == nil {
		return ""
	}
	return s.acting.name
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
		return disruptor.New(h, disruptor.Deps{Kube: api, Logger: logger, Patience: patience(s.cfg.Seed)})
	case ledger.ServiceTerminator:
		return terminator.New(h, terminator.Deps{Cluster: p.view, Kube: api, Logger: logger})
	}
	launcher := launch.New(launch.Config{Cloud: s.Cloud, Region: "eu-1", Now: p.Now, Cluster: func(context.Context) (launch.Cluster, error) {
		return launch.Cluster{Name: stage.ClusterName, Endpoint: "https://api.sim", CABundle: "Y2E=", CIDR: "10.100.0.0/16", DNS: "10.100.0.10", Version: "1.36"}, nil
	}})
	return lifecycle.New(h, lifecycle.Deps{Cluster: stage.ClusterName, Cache: s.cacheOf(p), Kube: api, EC2: ec2, Launcher: launcher, Logger: logger})
}

// patience of the disruptor in a run, in micro USD per eviction.
func patience(seed uint64) int64 {
	if seed%5 == 2 {
		return 200
	}
	return 0
}

// cacheOf is what the lifecycle has of the cluster.
func (s *Sim) cacheOf(p *process) lifecycle.Cache {
	if s.cfg.Wrap.Cache != nil {
		return s.cfg.Wrap.Cache(p.view)
	}
	return p.view
}

// observe connects cluster, cloud and checks.
func (s *Sim) observe() {
	s.Cluster.Watch(func(kind events.Kind, before, after cluster.Object) {
		s.judge.CheckWrite(kind, before, after, s.acting != nil)
		if s.watcher != nil {
			s.watcher.changed()
		}
		if cluster.IsViewed(kind) {
			s.informersMoved()
		}
	})
	s.Cloud.Watch(s.instanceMoved)
}

// informersMoved makes the services that informers drive notice a write.
func (s *Sim) informersMoved() {
	for _, name := range []string{ledger.ServiceLifecycle, ledger.ServiceTerminator} {
		if p := s.alive[name]; p != nil {
			p.changed("informers", toKube, s.Faults.InformersLate, func() bool {
				p.view.Advance(s.Cluster.Len())
				return true
			})
		}
	}
}

func (s *Sim) streamMoved() {
	for _, name := range services {
		if p := s.alive[name]; p != nil {
			p.changed("stream", nobody, s.Faults.StreamLate, func() bool {
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
			p.changed("log", toLog, s.Faults.LogLate, func() bool {
				p.foldLog(uint64(len(s.Entries)))
				return true
			})
		}
	}
}

// stored handles a record that was appended.
func (s *Sim) stored(by *process, rec store.Record) {
	s.Trace("%s: record %d %s %v", by, rec.Seq, ledger.Kind(rec.Kind), rec.Subjects)
	if hash, ok := s.Acknowledged[rec.Seq]; ok && hash != rec.Hash {
		s.Violate(judge.CheckLog, "record %d was acknowledged before, with another content", rec.Seq)
	}
	s.readLog(by)
	s.logMoved()
	switch ledger.Kind(rec.Kind) {
	case ledger.KindCommandStarted, ledger.KindCommandMovesStarted, ledger.KindCommandConfirmed:
		if s.Happens(s.Faults.CommandCrash) {
			s.Clock.After(s.Millis(0, 3000), func() { s.crash(by, "in the middle of a command") })
		}
	}
}

// readLog decodes what is new in the log and folds it into the reference.
func (s *Sim) readLog(*process) {
	records, err := s.Log.Read(context.Background(), uint64(len(s.Entries))+1, 100)
	if err != nil {
		s.Violate("the log can be read", "%v", err)
		return
	}
	for _, rec := range records {
		e, err := audit.Decode(rec)
		if err == nil {
			err = s.Reference.Apply(e)
		}
		if err != nil {
			s.Violate("the log can be folded", "%v", err)
			return
		}
		s.Entries = append(s.Entries, e)
		s.judge.CheckRecord(e)
		s.bargains.Enter(e)
	}
}
