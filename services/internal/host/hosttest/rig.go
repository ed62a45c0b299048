// Package hosttest runs a service on a real Host over a log, a stream and an API server in memory, inside a
// synctest bubble: time moves only when everything is idle, so that tests neither wait nor flake.
//
// The clock begins at plannertest.Start.
package hosttest

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/rs/zerolog"

	"millwright/events"
	"millwright/events/membus"
	"millwright/planner"
	"millwright/planner/ledger"
	"millwright/planner/plannertest"
	"millwright/services/internal/host/fold"
	"millwright/services/internal/host/step"
	"millwright/services/internal/service"
	"millwright/store"
	"millwright/store/audit"
	"millwright/store/memlog"
)

// Rig is one cluster with one service.
type Rig struct {
	T    *testing.T
	Host *step.Host
	Kube *Kube
	Log  *memlog.Log
	// Events are the KubeEvents published, as "kind/name reason: message".
	Events []string

	state   *fold.State
	away    *awayLog
	elector *memlog.Elector
	stream  *membus.Stream
	began   time.Time
	mu      sync.Mutex
	counter uint64
	beat    time.Time
}

// Run runs a test of a service in a mode, with options that differ from the defaults by change. The World has
// seen one resync, of an empty cluster.
func Run(t *testing.T, name string, mode ledger.Mode, test func(r *Rig), change ...func(*planner.Options)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		r := &Rig{T: t, stream: membus.NewBus().Connect(10000), began: time.Now()}
		log, err := memlog.Open(memlog.Config{Cluster: "test", LogID: plannertest.LogID, Clock: r.Now})
		if err != nil {
			t.Fatal(err)
		}
		r.Log, r.elector = log, memlog.NewElector(log)
		r.Kube = newKube(r)
		options := planner.DefaultOptions()
		for _, f := range change {
			f(&options)
		}
		defer r.start(name, mode, options)()
		r.send(events.Observation{Op: events.OpResyncBegin})
		r.send(events.Observation{Op: events.OpResyncEnd})
		r.Beat()
		synctest.Wait()
		test(r)
		synctest.Wait()
	})
}

// start folds and leads; it returns a function that ends both.
func (r *Rig) start(name string, mode ledger.Mode, options planner.Options) func() {
	r.away = &awayLog{Log: r.Log}
	r.state = fold.NewState(fold.StateConfig{Log: r.away, Stream: r.stream, Clock: r.Now, Logger: zerolog.Nop(), Registerer: prometheus.NewRegistry()})
	ctx, cancel := context.WithCancel(context.Background())
	var group sync.WaitGroup
	group.Go(func() { _ = r.state.Run(ctx) })
	r.Host = step.New(step.Config{Service: name, Mode: mode, State: r.state, Options: options, Events: r,
		Logger: zerolog.Nop(), Registerer: prometheus.NewRegistry()})
	lead, _ := r.elector.TryCampaign(store.Candidacy{Service: name, Identity: "test"})
	_, release, err := r.Host.Lead(ctx, lead)
	if err != nil {
		r.T.Fatal(err)
	}
	return func() {
		release(ctx)
		_ = lead.Resign(ctx)
		cancel()
		group.Wait()
	}
}

// Now is the clock of log, host and observations.
func (r *Rig) Now() time.Time { return plannertest.Start.Add(time.Since(r.began)) }

// Publish implements fold.Publisher.
func (r *Rig) Publish(e service.KubeEvent) {
	r.mu.Lock()
	defer r.mu.Unlock()
	text := e.Object.Kind + "/" + e.Object.Name + " " + e.Reason + ": " + e.Message
	if !slices.Contains(r.Events, text) {
		r.Events = append(r.Events, text)
	}
}

// See publishes objects as they are now.
func (r *Rig) See(objects ...any) {
	for _, o := range objects {
		r.send(plannertest.Observe(o))
	}
	synctest.Wait()
}

// Gone publishes that objects were deleted.
func (r *Rig) Gone(objects ...any) {
	for _, o := range objects {
		obs := plannertest.Observe(o)
		obs.Op, obs.Object = events.OpDelete, nil
		r.send(obs)
	}
	synctest.Wait()
}

// Beat publishes a heartbeat.
func (r *Rig) Beat() {
	r.beat = r.Now()
	r.send(events.Observation{Op: events.OpHeartbeat, Object: &events.Heartbeat{}})
}

func (r *Rig) send(o events.Observation) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.counter++
	o.Epoch, o.Counter, o.ObservedAt = 1, r.counter, r.Now()
	if ref, ok := o.Object.(*events.CatalogRef); ok && ref.Catalog != nil {
		stored, err := events.StoreCatalog(context.Background(), r.stream.Blobs(), ref.Catalog)
		if err != nil {
			panic(err)
		}
		stored.ReservationsAt, stored.ZonalShifts = ref.ReservationsAt, ref.ZonalShifts
		o.Object = stored
	}
	data, err := events.Encode(o)
	if err != nil {
		panic(err)
	}
	if err := r.stream.Publish(context.Background(), data); err != nil {
		panic(err)
	}
}

// Step steps the service once and lets its effects end.
func (r *Rig) Step(s service.Service) (time.Duration, error) {
	next, err := s.Step(context.Background())
	synctest.Wait()
	return next, err
}

// Settle steps the service every 50 ms for a time, with a heartbeat every second. Errors of a step are ones
// it will recover from.
func (r *Rig) Settle(s service.Service, d time.Duration) {
	for end := r.Now().Add(d); r.Now().Before(end); {
		if r.Now().Sub(r.beat) >= time.Second {
			r.Beat()
			synctest.Wait()
		}
		_, _ = r.Step(s)
		time.Sleep(50 * time.Millisecond)
	}
}

// Append appends an outcome as another service would, and lets it be folded.
func (r *Rig) Append(kind ledger.Kind, payload any, advances ...string) store.Record {
	r.T.Helper()
	draft, err := audit.OutcomeDraft(audit.Outcome{Kind: kind, Payload: payload, Advances: advances})
	if err != nil {
		r.T.Fatal(err)
	}
	draft.Time, draft.Service, draft.Mode = r.Now(), "test", string(ledger.ModeActive)
	rec, err := r.Log.Append(context.Background(), draft)
	if err != nil {
		r.T.Fatal(err)
	}
	synctest.Wait()
	return rec
}

// awayLog can be made unreachable.
type awayLog struct {
	store.Log
	away, full atomic.Bool
}

var errAway = errors.New("log is away")

func (l *awayLog) Switch(ctx context.Context, name string) (string, store.Head, error) {
	if l.away.Load() {
		return "", store.Head{}, errAway
	}
	return l.Log.Switch(ctx, name)
}

func (l *awayLog) Append(ctx context.Context, d store.Draft) (store.Record, error) {
	if l.away.Load() {
		return store.Record{}, errAway
	}
	if l.full.Load() {
		return store.Record{}, fmt.Errorf("at its quota: %w", store.ErrRefused)
	}
	return l.Log.Append(ctx, d)
}

// LogFull makes the log refuse the records of the service, as etcd does at its quota, or take them again.
func (r *Rig) LogFull(full bool) {
	r.away.full.Store(full)
	time.Sleep(2 * time.Second)
	synctest.Wait()
}

// LogAway makes the log unreachable for the service, or reachable again, and waits until that is noticed.
func (r *Rig) LogAway(away bool) {
	r.away.away.Store(away)
	time.Sleep(2 * time.Second)
	synctest.Wait()
}

// Stop stops the services as an operator would, and waits until that must be in effect.
func (r *Rig) Stop(level ledger.Stop) {
	r.T.Helper()
	seen, err := r.Log.Aggregate(context.Background(), ledger.ControlAggregate)
	if err != nil {
		r.T.Fatal(err)
	}
	draft, err := audit.ControlDraft(&ledger.ControlChanged{Stop: level, By: "test", Why: "trial"}, seen)
	if err != nil {
		r.T.Fatal(err)
	}
	draft.Time = r.Now()
	if _, err := r.Log.Append(context.Background(), draft); err != nil {
		r.T.Fatal(err)
	}
	synctest.Wait()
}

// Entries are the records of a kind, all if none is named.
func (r *Rig) Entries(kinds ...ledger.Kind) []ledger.Entry {
	r.T.Helper()
	records, err := r.Log.Read(context.Background(), 1, 10000)
	if err != nil {
		r.T.Fatal(err)
	}
	var list []ledger.Entry
	for _, rec := range records {
		e, err := audit.Decode(rec)
		if err != nil {
			r.T.Fatal(err)
		}
		if len(kinds) == 0 || slices.Contains(kinds, e.Kind) {
			list = append(list, e)
		}
	}
	return list
}

// Kinds are the kinds of the records after options and mode, in order.
func (r *Rig) Kinds() []ledger.Kind {
	var kinds []ledger.Kind
	for _, e := range r.Entries() {
		switch e.Kind {
		case ledger.KindGenesis, ledger.KindOptionsSet, ledger.KindModeChanged:
		default:
			kinds = append(kinds, e.Kind)
		}
	}
	return kinds
}

// Ledger calls fn with the Ledger.
func (r *Rig) Ledger(fn func(*ledger.Ledger)) {
	r.T.Helper()
	if err := r.Host.Ledger(func(l *ledger.Ledger) error { fn(l); return nil }); err != nil {
		r.T.Fatal(err)
	}
}

// AddNode makes an initialized node of a pool with its claim in API server, World and Ledger.
func (r *Rig) AddNode(name, pool string) {
	claim := plannertest.Claim(name+"-claim", name, pool)
	r.Append(ledger.KindClaimAdopted, &ledger.ClaimAdopted{Claim: claim.Name, UID: claim.UID, NodePool: pool, ProviderID: claim.Status.ProviderID})
	r.Append(ledger.KindClaimInitialized, &ledger.ClaimInitialized{Claim: claim.Name, Node: name})
	r.Kube.Put(claim, plannertest.Node(name, plannertest.InPool(pool)))
}

// seeQuietly and goneQuietly publish without waiting until it is folded, for callers inside effects.
func (r *Rig) seeQuietly(o any) { r.send(plannertest.Observe(o)) }

func (r *Rig) goneQuietly(o any) {
	obs := plannertest.Observe(o)
	obs.Op, obs.Object = events.OpDelete, nil
	r.send(obs)
}
