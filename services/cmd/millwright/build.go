package main

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/aws/aws-sdk-go-v2/service/s3"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/rs/zerolog"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/client-go/kubernetes"
	coordinationv1client "k8s.io/client-go/kubernetes/typed/coordination/v1"
	"k8s.io/client-go/rest"

	"millwright/events"
	"millwright/events/natsbus"
	"millwright/planner/ledger"
	"millwright/services/bucket"
	"millwright/services/console"
	"millwright/services/disruptor"
	"millwright/services/export"
	"millwright/services/internal/clock"
	"millwright/services/internal/ec2"
	"millwright/services/internal/host/fold"
	"millwright/services/internal/host/step"
	"millwright/services/internal/identity"
	"millwright/services/internal/kube"
	"millwright/services/internal/kubeevent"
	"millwright/services/internal/lease"
	"millwright/services/internal/poolseries"
	"millwright/services/internal/process"
	"millwright/services/internal/service"
	"millwright/services/provisioner"
	"millwright/services/terminator"
	"millwright/services/watcher"
	watcherkube "millwright/services/watcher/kube"
	"millwright/store"
	"millwright/store/archive"
	"millwright/store/etcdlog"
)

// builder constructs the services of one process over what they share.
type builder struct {
	settings *process.Settings
	// console is that of the people's view, which not every process has.
	console *console.Settings
	// export is what is handed to others; without a sink nothing is.
	export *export.Settings
	// shared: more than the watcher runs here, so there is a World in any case.
	shared bool
	// acting: a service that changes something runs here in active mode.
	acting bool
	// watches: the watcher runs here, the only one that writes to the stream.
	watches  bool
	registry *poolseries.Registerer
	// metrics is the registry itself.
	metrics prometheus.Registerer
	logger  zerolog.Logger
	closers closers
	parts   process.Parts

	// clock is the process's, for which every answer of the API server and of AWS is a witness.
	clock     *clock.Clock
	config    *rest.Config
	kube      *kube.Client
	informers *kube.Informers
	changes   *process.Fanout
	events    *kubeevent.Publisher
	state     *fold.State
	log       store.Log
	database  *etcdlog.Log
	archive   *archive.Archive
	stream    events.Stream
	// bus is the stream, for what only NATS has.
	bus     *natsbus.Stream
	elector store.Elector
	lease   *lease.Keeper
	adopt   []string
	// leaseUnread: the last look of leaseIsOurs failed. Only the reader of the interruption queue looks.
	leaseUnread bool
	cloud       *cloud
	// speaker leads lifecycle whenever it leads anything; nil if lifecycle does not run here.
	speaker *step.Host
}

// build connects and constructs. What it opened is closed by Parts.Close, or at once if it fails.
func build(ctx context.Context, s *process.Settings, c *console.Settings, x *export.Settings, services []string, r *prometheus.Registry, logger zerolog.Logger) (_ *process.Parts, err error) {
	b := &builder{settings: s, console: c, export: x, registry: poolseries.New(r), metrics: r, logger: logger, shared: !slices.Equal(services, []string{ledger.ServiceWatcher}),
		watches: slices.Contains(services, ledger.ServiceWatcher)}
	for _, name := range services {
		b.acting = b.acting || name != ledger.ServiceWatcher && name != console.Name && s.ModeOf(name) == ledger.ModeActive
	}
	defer func() {
		if err != nil {
			err = errors.Join(err, b.closers.close())
		}
	}()
	if err := b.connect(ctx); err != nil {
		return nil, err
	}
	for _, name := range services {
		if err := b.addService(ctx, name); err != nil {
			return nil, fmt.Errorf("build %s: %w", name, err)
		}
	}
	if hasConsole(services) {
		if err := b.addConsole(len(services) == 1); err != nil {
			return nil, fmt.Errorf("build console: %w", err)
		}
	}
	if exports(services) && b.export.Enabled() {
		b.addExport()
	}
	b.addNotifier()
	b.parts.Close = b.closers.close
	return &b.parts, nil
}

// connect opens log, stream and API server, in this order: the stream's name contains the log's id.
func (b *builder) connect(ctx context.Context) (err error) {
	if b.config, err = kubeConfig(b.settings, b.registry); err != nil {
		return err
	}
	b.keepClock()
	if b.kube, err = kube.New(b.config); err != nil {
		return err
	}
	log, elector, err := openLog(ctx, b.settings, &b.closers, b.logger)
	if err != nil {
		return err
	}
	b.log, b.database, b.elector, b.parts.Elector = log, log, elector, elector
	if err := b.openArchive(ctx); err != nil {
		return err
	}
	b.state = fold.NewState(fold.StateConfig{Clock: b.clock.Now, Reliable: b.clock.Check, Log: b.log, Usage: log.Usage, Candidates: elector.Candidates, Logger: b.logger, Registerer: b.registry})
	if err := b.state.CatchUp(ctx); err != nil {
		return err
	}
	stream, embedded, err := openStream(ctx, b.settings, !b.watches, log.ID(), b.state, &b.closers, b.logger)
	if err != nil {
		return err
	}
	b.stream, b.bus = stream, stream
	if embedded != nil {
		b.parts.Background = append(b.parts.Background, embedded.Watch)
	}
	if b.shared { // the watcher alone folds only for its checkpoints
		b.state.Follow(stream)
		b.parts.Background = append(b.parts.Background, func(ctx context.Context) error { return b.registry.Run(ctx, b.nodePools) })
	}
	b.state.Probe(stream)
	b.parts.Background = append(b.parts.Background, b.state.Run)
	b.parts.Ready = append(b.parts.Ready, process.Check{Name: "log", Probe: b.state.Ready})
	sink, stop := kubeevent.NewRecorder(b.kube.Core, kube.Scheme)
	b.closers.addCloser(func() error { stop(); return nil })
	b.events = kubeevent.New(sink, b.clock.Now)
	if err := b.identify(ctx); err != nil {
		return err
	}
	return b.keepLease()
}

// measureBucket makes a client of S3 measure its calls, as the other clients of AWS do.
func (b *builder) measureBucket(o *s3.Options) {
	o.APIOptions = append(o.APIOptions, ec2.MeasureCalls(b.registry))
}

// openArchive makes the log read on in its archive, if there is one. It asks nobody: what archives can wait.
func (b *builder) openArchive(ctx context.Context) (err error) {
	location := b.settings.Archive()
	if location == "" {
		return nil
	}
	if b.settings.DataDir != "" && !bucket.Is(location) && sameVolume(location, b.settings.DataDir) {
		b.logger.Warn().Str("archive", location).Msg("the archive lies on the volume of the log and can fill it: name another with --archive-dir, or prune it")
	}
	if b.archive, err = bucket.Open(ctx, location, b.log.ID(), b.now(), b.measureBucket); err != nil {
		return fmt.Errorf("open archive: %w", err)
	}
	b.closers.addCloser(b.archive.Close)
	b.log = archive.Join(b.log, b.archive)
	return nil
}

// nodePools are the names of the NodePools, and whether all that there are is known.
func (b *builder) nodePools() (names map[string]bool, whole bool) {
	_, synced := b.state.Position()
	names = map[string]bool{}
	for _, pool := range b.state.Version().NodePools() {
		names[pool.Name] = true
	}
	return names, synced && !b.state.Torn() && b.state.BusUnreachable().IsZero()
}

// keepClock compares the clock of the process with those of its witnesses. Nothing leads while it cannot be
// relied on.
func (b *builder) keepClock() {
	b.clock = witnessedClock(b.config, b.registry)
	b.parts.Background = append(b.parts.Background, keepClock(b.clock, func() kubernetes.Interface { return b.kube.Core }, b.logger))
	b.parts.Ready = append(b.parts.Ready, process.Check{Name: "clock", Probe: b.clock.Check})
	b.parts.Fit = b.clock.Check
}

// acts reports that something in the process may act on the cluster.
func (b *builder) acts() bool { return b.acting }

// identify refuses a cluster whose objects another log planned, unless an operator says otherwise.
func (b *builder) identify(ctx context.Context) error {
	if !b.acts() {
		return nil
	}
	return untilConnected(ctx, b.logger, "list nodeclaims", func() (err error) {
		b.adopt, err = identity.Check(ctx, b.kube, b.log.ID(), b.state.HasAdopted, b.settings.Adopt)
		return err
	})
}

// keepLease makes the process hold the kube Lease, if anything in it acts.
func (b *builder) keepLease() error {
	if !b.acts() {
		return nil
	}
	// A client of its own: a burst of other calls must not cost the Lease.
	config := rest.CopyConfig(b.config)
	config.QPS, config.Burst, config.Timeout = 0, 0, lease.RenewDeadline/2
	leases, err := coordinationv1client.NewForConfig(config)
	if err != nil {
		return fmt.Errorf("build client for leases: %w", err)
	}
	b.lease = lease.New(lease.Config{
		Leases: leases, Namespace: b.settings.LeaseNamespace(), Name: b.settings.LeaderElectionName, LogID: b.log.ID(),
		Instance: b.settings.Instance(), Events: b.events, Logger: b.logger, Registerer: b.registry,
	})
	b.parts.Background = append(b.parts.Background, b.lease.Run) // ends after the units, and so after all effects
	b.parts.Ready = append(b.parts.Ready, process.Check{Name: "lease", Probe: b.lease.Ready})
	return nil
}

// addNotifier publishes stops and outages as KubeEvents about the kube Lease, of which there is one in a
// cluster.
func (b *builder) addNotifier() {
	notifier := &fold.OutageNotifier{
		State: b.state, Events: b.events, Instance: b.settings.Instance(), Options: b.settings.Options(),
		Object: b.leaseReference(),
		Speaks: func() bool { return b.speaker != nil && b.speaker.Leads() },
	}
	b.parts.Background = append(b.parts.Background, notifier.Run)
}

// leaseReference names what KubeEvents about the whole installation are about.
func (b *builder) leaseReference() corev1.ObjectReference {
	return corev1.ObjectReference{APIVersion: "coordination.k8s.io/v1", Kind: "Lease", Namespace: b.settings.LeaseNamespace(), Name: b.settings.LeaderElectionName}
}

func (b *builder) addService(ctx context.Context, name string) error {
	switch name {
	case ledger.ServiceWatcher:
		return b.addWatcher(ctx)
	case ledger.ServiceLifecycle:
		return b.addLifecycle(ctx)
	case ledger.ServiceProvisioner:
		return b.addProvisioner()
	case ledger.ServiceDisruptor:
		h, logger := b.host(name)
		b.addSteps(h, disruptor.New(h, disruptor.Deps{Kube: b.kube, Logger: logger, Registerer: b.registry, Patience: b.settings.Patience()}), logger)
	case ledger.ServiceTerminator:
		h, logger := b.host(name)
		informers := b.watchCluster()
		b.addSteps(h, terminator.New(h, terminator.Deps{Cluster: informers, Kube: b.kube, Logger: logger, Registerer: b.registry}), logger, b.changes)
	}
	return nil
}

// hintQPS bounds the requests for placement hints: a burst of them must not slow down necessary work.
const hintQPS = 100

func (b *builder) addProvisioner() error {
	h, logger := b.host(ledger.ServiceProvisioner)
	deps := provisioner.Deps{Logger: logger, Registerer: b.registry, PodMetrics: b.settings.PodMetrics, ObjectMetrics: b.settings.ObjectMetrics}
	if b.settings.PlacementHints {
		config := rest.CopyConfig(b.config)
		config.QPS, config.Burst, config.RateLimiter = hintQPS, 2*hintQPS, nil
		client, err := kube.New(config)
		if err != nil {
			return err
		}
		deps.Kube = client
	}
	service := provisioner.New(h, deps)
	b.addSteps(h, service, logger).Beside(service.ForgetAfterwards)
	return nil
}

// host returns the view of a service of the shared State.
func (b *builder) host(name string) (*step.Host, zerolog.Logger) {
	logger := b.logger.With().Str("service", name).Logger()
	cfg := step.Config{
		Service: name, Mode: b.settings.ModeOf(name), State: b.state, Options: b.settings.Options(), Events: b.events,
		Logger: logger, Registerer: b.registry,
	}
	if name == ledger.ServiceLifecycle {
		cfg.Adopt = b.adopt
	}
	if b.lease != nil {
		cfg.MayAct, cfg.MayActUntil = b.lease.Held, b.lease.Until
	}
	return step.New(cfg), logger
}

func (b *builder) addSteps(h *step.Host, s service.Service, logger zerolog.Logger, more ...process.Changes) *process.Steps {
	sources := append([]process.Changes{b.state}, more...)
	if b.lease != nil {
		sources = append(sources, b.lease)
	}
	steps := process.NewSteps(h.Gate(s), h, logger, b.registry, sources...)
	if s.Name() == ledger.ServiceLifecycle || s.Name() == ledger.ServiceTerminator {
		steps.RunDegradedOn(h)
	}
	unit := steps.Unit()
	unit.Deposable = s.Name() != ledger.ServiceLifecycle // the only one with creating effects
	b.parts.Units = append(b.parts.Units, unit)
	b.parts.Healthy = append(b.parts.Healthy, steps.Check())
	return steps
}

// watchCluster returns the informers, which the services of one process share.
func (b *builder) watchCluster() *kube.Informers {
	if b.informers == nil {
		b.informers = kube.NewInformers(b.kube)
		b.changes = process.NewFanout(b.informers.Changed())
		b.parts.Background = append(b.parts.Background, b.informers.Run, b.changes.Run)
	}
	return b.informers
}

func (b *builder) addWatcher(ctx context.Context) error {
	logger := b.logger.With().Str("service", ledger.ServiceWatcher).Logger()
	source, err := watcherkube.New(b.config, logger)
	if err != nil {
		return err
	}
	if b.settings.Options().CapacityBuffers {
		source = source.WithBuffers()
	}
	if b.settings.Options().SurgeFirst {
		source = source.WithSurge()
	}
	aws, err := b.awsWatcher(ctx, logger)
	if err != nil {
		return err
	}
	cfg := watcher.Config{Stream: b.stream, Kube: source, AWS: aws, LogID: b.log.ID(), Clock: b.clock.Now, Logger: logger, Registerer: b.registry}
	if b.shared {
		cfg.World = b.state
	}
	w, err := watcher.New(cfg)
	if err != nil {
		return err
	}
	b.parts.Units = append(b.parts.Units, process.Unit{Name: ledger.ServiceWatcher, Lead: process.WhileLeading(w.Run)})
	return nil
}
