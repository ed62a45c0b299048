package step

import (
	"context"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/rs/zerolog"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"millwright/events"
	"millwright/events/membus"
	"millwright/planner"
	"millwright/planner/ledger"
	"millwright/services/internal/host/fold"
	"millwright/services/internal/service"
	"millwright/store"
	"millwright/store/memlog"
)

// rig is a State over a log and a stream in memory, inside a synctest bubble.
type rig struct {
	t        *testing.T
	log      *memlog.Log
	elector  *memlog.Elector
	bus      *membus.Bus
	stream   *membus.Stream
	state    *fold.State
	registry *prometheus.Registry
	counter  uint64
	// adjust changes the State of the next start; nil changes nothing.
	adjust func(*fold.StateConfig)
	stop   func()
}

func inBubble(t *testing.T, test func(r *rig)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		log := memlog.New("test")
		bus := membus.NewBus()
		r := &rig{t: t, log: log, elector: memlog.NewElector(log), bus: bus, stream: bus.Connect(1000)}
		r.start(log)
		defer func() { r.stop() }()
		test(r)
	})
}

// restartWith starts anew with another StateConfig.
func (r *rig) restartWith(adjust func(*fold.StateConfig)) {
	r.stop()
	r.adjust = adjust
	r.start(r.log)
}

// start folds log and stream from the beginning.
func (r *rig) start(log store.Log) {
	r.registry = prometheus.NewRegistry()
	cfg := fold.StateConfig{Log: log, Stream: r.stream, Logger: zerolog.Nop(), Registerer: r.registry}
	if r.adjust != nil {
		r.adjust(&cfg)
	}
	r.state = fold.NewState(cfg)
	ctx, cancel := context.WithCancel(context.Background())
	var group sync.WaitGroup
	group.Go(func() { _ = r.state.Run(ctx) })
	r.stop = func() { cancel(); group.Wait() }
	synctest.Wait()
}

func (r *rig) publish(kind events.Kind, op events.Op, name string, object any) {
	r.t.Helper()
	r.counter++
	o := events.Observation{Epoch: 1, Counter: r.counter, Kind: kind, Op: op, Name: name, ObservedAt: time.Now(), Object: object}
	if name != "" {
		o.UID = types.UID("uid-" + name)
	}
	data, err := events.Encode(o)
	if err != nil {
		r.t.Fatal(err)
	}
	r.send(data)
}

func (r *rig) send(data []byte) {
	r.t.Helper()
	if err := r.stream.Publish(r.t.Context(), data); err != nil {
		r.t.Fatal(err)
	}
	if err := r.stream.Flush(r.t.Context()); err != nil {
		r.t.Fatal(err)
	}
	synctest.Wait()
}

// resync publishes an epoch without objects, and a heartbeat.
func (r *rig) resync() {
	r.publish(events.KindNone, events.OpResyncBegin, "", nil)
	r.publish(events.KindNone, events.OpResyncEnd, "", nil)
	r.beat()
}

func (r *rig) beat() { r.publish(events.KindNone, events.OpHeartbeat, "", &events.Heartbeat{}) }

func (r *rig) node(name string, annotations map[string]string) {
	r.publish(events.KindNode, events.OpUpsert, name, &corev1.Node{
		ObjectMeta: metav1.ObjectMeta{Name: name, UID: types.UID("uid-" + name), Annotations: annotations}})
}

func (r *rig) host(name string, mode ledger.Mode) *Host {
	return New(Config{Service: name, Mode: mode, State: r.state, Options: planner.DefaultOptions(), EffectsMax: 3,
		Logger: zerolog.Nop(), Registerer: prometheus.NewRegistry()})
}

// leading returns a host that leads, and what ends that.
func (r *rig) leading(name string, mode ledger.Mode) (*Host, context.Context) {
	r.t.Helper()
	h := r.host(name, mode)
	lead, ok := r.elector.TryCampaign(store.Candidacy{Service: name, Identity: "me"})
	if !ok {
		r.t.Fatalf("%s is led already", name)
	}
	led, release, err := h.Lead(r.t.Context(), lead)
	if err != nil {
		r.t.Fatal(err)
	}
	stop := r.stop
	r.stop = func() {
		done, cancel := context.WithCancel(context.Background())
		cancel()
		release(done)
		_ = lead.Resign(context.Background())
		stop()
	}
	return h, led
}

func (r *rig) kinds() []ledger.Kind {
	r.t.Helper()
	records, err := r.log.Read(r.t.Context(), 2, 1000)
	if err != nil {
		r.t.Fatal(err)
	}
	var kinds []ledger.Kind
	for _, rec := range records {
		kinds = append(kinds, ledger.Kind(rec.Kind))
	}
	return kinds
}

func (r *rig) snapshot(h *Host, need service.Freshness) error {
	return h.Snapshot(need, func(*planner.Snapshot) error { return nil })
}

func (r *rig) basis(h *Host) planner.Basis {
	r.t.Helper()
	var b planner.Basis
	if err := h.Snapshot(service.ForEffects, func(s *planner.Snapshot) error { b = s.Basis(); return nil }); err != nil {
		r.t.Fatal(err)
	}
	return b
}

// decision on a pool, which it expects where the host's Ledger has it.
func (r *rig) decision(h *Host, pool string) planner.Decision {
	d := planner.Decision{Kind: ledger.KindProvisioningPlanned, Payload: &ledger.ProvisioningPlanned{}, Subjects: []string{"pool/" + pool},
		Advances: []string{ledger.PoolAggregate(pool)}}
	_ = h.Snapshot(service.ForEffects, func(s *planner.Snapshot) error {
		d.Expects = s.Expect(ledger.PoolAggregate(pool))
		return nil
	})
	return d
}
