package watcher

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync/atomic"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	dto "github.com/prometheus/client_model/go"

	"millwright/events"
	"millwright/planner/world"
)

func value(t *testing.T, m prometheus.Metric) float64 {
	t.Helper()
	var out dto.Metric
	if err := m.Write(&out); err != nil {
		t.Fatal(err)
	}
	return out.GetCounter().GetValue() + out.GetGauge().GetValue()
}

// fakeAWS emits nothing by itself.
type fakeAWS struct {
	emitter Emitter
	resyncs atomic.Int64
	synced  atomic.Bool
}

func (a *fakeAWS) Run(ctx context.Context) error { <-ctx.Done(); return ctx.Err() }
func (a *fakeAWS) Resync()                       { a.resyncs.Add(1) }
func (a *fakeAWS) Synced() bool                  { return a.synced.Load() }

// withAWS is a rig whose AWS half has polled once.
func withAWS(t *testing.T, test func(t *testing.T, r *rig, aws *fakeAWS)) {
	aws := &fakeAWS{}
	run(t, func(c *Config) {
		c.AWS = func(e Emitter) (AWS, error) { aws.emitter = e; return aws, nil }
	}, func(t *testing.T, r *rig) { test(t, r, aws) })
}

func emit(t *testing.T, e Emitter, kind events.Kind, name string, object any) {
	t.Helper()
	op := events.OpUpsert
	if object == nil {
		op = events.OpDelete
	}
	if err := e.Emit(kind, op, name, name, object); err != nil {
		t.Fatal(err)
	}
}

func storeCatalog(t *testing.T, e Emitter, generation int64) *events.CatalogRef {
	t.Helper()
	ref, err := events.StoreCatalog(t.Context(), e.Blobs(), &events.Catalog{NodeClass: "default", Generation: generation})
	if err != nil {
		t.Fatal(err)
	}
	emit(t, e, events.KindCatalog, "default", ref)
	return ref
}

func prices(entries ...events.Price) *events.Prices { return &events.Prices{Entries: entries} }

func price(instanceType string, amount int64) events.Price {
	return events.Price{InstanceType: instanceType, CapacityType: "on-demand", MicroUSDPerHour: amount}
}

func TestTheFirstResyncWaitsForTheFirstPoll(t *testing.T) {
	withAWS(t, func(t *testing.T, r *rig, aws *fakeAWS) {
		r.pass(5 * time.Second)
		if r.world().Synced() {
			t.Fatal("the resync ended before the poll")
		}
		storeCatalog(t, aws.emitter, 1)
		aws.synced.Store(true)
		r.pass(time.Second)
		w := r.world()
		if !w.Synced() || w.CatalogHash("default") == "" {
			t.Fatalf("synced %v, catalogue %q", w.Synced(), w.CatalogHash("default"))
		}
	})
}

func TestAnObjectThatCannotBeEncodedEndsNoEpoch(t *testing.T) {
	withAWS(t, func(t *testing.T, r *rig, aws *fakeAWS) {
		aws.synced.Store(true)
		r.pass(5 * time.Second)
		before := value(t, r.w.metrics.resyncs)
		never := time.Date(10000, 1, 1, 0, 0, 0, 0, time.UTC)
		for range 3 {
			o := &events.Interruption{MessageKind: events.SpotInterrupted, InstanceID: "i-1", At: never}
			if err := aws.emitter.Emit(events.KindInterruption, events.OpUpsert, "i-1", "i-1", o); err == nil {
				t.Error("it was published")
			}
			r.pass(20 * time.Second)
		}
		emit(t, aws.emitter, events.KindInterruption, "i-2", &events.Interruption{MessageKind: events.SpotInterrupted, InstanceID: "i-2", At: time.Now().UTC()})
		if began := value(t, r.w.metrics.resyncs) - before; began != 0 {
			t.Errorf("%v epochs began", began)
		}
	})
}

func TestAClusterWithoutAnswerFromEC2IsSynced(t *testing.T) {
	withAWS(t, func(t *testing.T, r *rig, aws *fakeAWS) {
		r.pass(40 * time.Second)
		r.expectPods("a", "b", "c")
	})
}

// A catalogue whose blob is lost before anybody reads it is in no World; the next epoch stores it again.
func TestALostCatalogueComesBack(t *testing.T) {
	withAWS(t, func(t *testing.T, r *rig, aws *fakeAWS) {
		aws.synced.Store(true)
		r.pass(time.Second)
		ref, err := events.StoreCatalog(t.Context(), aws.emitter.Blobs(), &events.Catalog{NodeClass: "default", Generation: 2})
		if err != nil {
			t.Fatal(err)
		}
		if err := aws.emitter.Blobs().Delete(t.Context(), events.CatalogBlob(ref.Hash)); err != nil {
			t.Fatal(err)
		}
		emit(t, aws.emitter, events.KindCatalog, "default", ref)
		r.pass(time.Second)
		if r.w.own.Version().HasCatalog("default") {
			t.Fatal("the World has what was lost")
		}
		r.pass(time.Minute)
		if !r.w.own.Version().HasCatalog("default") || r.w.own.Torn() {
			t.Fatalf("has it: %t, torn: %t", r.w.own.Version().HasCatalog("default"), r.w.own.Torn())
		}
	})
}

func TestANewEpochSaysAgainWhatIsKnownOfAWS(t *testing.T) {
	withAWS(t, func(t *testing.T, r *rig, aws *fakeAWS) {
		aws.synced.Store(true)
		ref := storeCatalog(t, aws.emitter, 2)
		emit(t, aws.emitter, events.KindPrices, "", prices(price("m5.large", 96000), price("c5.large", 85000)))
		emit(t, aws.emitter, events.KindPrices, "", prices(price("m5.large", 90000), price("c5.large", 0)))
		emit(t, aws.emitter, events.KindInstanceState, "i-1", &events.InstanceState{ID: "i-1", State: "running"})
		emit(t, aws.emitter, events.KindInstanceState, "i-2", &events.InstanceState{ID: "i-2", State: "running"})
		emit(t, aws.emitter, events.KindInstanceState, "i-2", nil)
		r.bus.Lose(0) // a new NATS: messages are gone, and so is the blob
		if err := aws.emitter.Blobs().Delete(t.Context(), events.CatalogBlob(ref.Hash)); err != nil {
			t.Fatal(err)
		}
		if _, err := r.bus.Connect(1).Renew(t.Context()); err != nil {
			t.Fatal(err)
		}
		r.pass(5 * time.Second)
		w := r.world()
		if !w.Synced() || w.CatalogHash("default") != ref.Hash {
			t.Fatalf("synced %v, catalogue %q", w.Synced(), w.CatalogHash("default"))
		}
		expectAWS(t, r, w)
		if _, err := aws.emitter.Blobs().Get(t.Context(), events.CatalogBlob(ref.Hash)); err != nil {
			t.Fatalf("the reference leads nowhere: %v", err)
		}
		if aws.resyncs.Load() < 2 {
			t.Fatalf("%d resyncs asked for", aws.resyncs.Load())
		}
	})
}

func expectAWS(t *testing.T, r *rig, w *world.World) {
	t.Helper()
	var last events.Prices
	instances := map[string]bool{}
	for _, o := range r.observations() {
		switch object := o.Object.(type) {
		case *events.Prices:
			last = *object
		case *events.InstanceState:
			instances[object.ID] = true
		}
	}
	if len(last.Entries) != 1 || last.Entries[0].MicroUSDPerHour != 90000 {
		t.Fatalf("prices %+v", last.Entries)
	}
	if len(instances) != 1 || !instances["i-1"] {
		t.Fatalf("instances %v", instances)
	}
}

// Its queue has forgotten a notice that the stream has acknowledged: a NATS that loses its storage then loses
// the only copy.
func TestANewEpochSaysAgainWhatInterruptionsWereTold(t *testing.T) {
	withAWS(t, func(t *testing.T, r *rig, aws *fakeAWS) {
		aws.synced.Store(true)
		notice := func(id, kind string) {
			emit(t, aws.emitter, events.KindInterruption, id, &events.Interruption{MessageKind: kind, InstanceID: id, ReceivedAt: time.Now().UTC()})
		}
		for _, id := range []string{"i-stays", "i-terminated", "i-deleted"} {
			emit(t, aws.emitter, events.KindInstanceState, id, &events.InstanceState{ID: id, State: "running"})
			notice(id, events.SpotInterrupted)
		}
		notice("i-stays", events.RebalanceRecommendation)
		notice("i-stranger", events.SpotInterrupted)
		emit(t, aws.emitter, events.KindInstanceState, "i-terminated", &events.InstanceState{ID: "i-terminated", State: "terminated"})
		emit(t, aws.emitter, events.KindInstanceState, "i-deleted", nil)
		expect := func(when string, want ...string) {
			t.Helper()
			r.bus.Lose(0)
			if _, err := r.bus.Connect(1).Renew(t.Context()); err != nil {
				t.Fatal(err)
			}
			r.pass(5 * time.Second)
			var got []string
			for _, i := range r.world().Interruptions() {
				got = append(got, events.InterruptionName(i.InstanceID, i.MessageKind))
			}
			if !slices.Equal(got, want) {
				t.Fatalf("%s: the next epoch says %v, want %v", when, got, want)
			}
		}
		expect("at once", "i-stays/rebalance_recommendation", "i-stays/spot_interrupted", "i-stranger/spot_interrupted")
		r.pass(strangerMemory)
		expect("after ten minutes", "i-stays/rebalance_recommendation", "i-stays/spot_interrupted")

		for i := range 3 * strangersMax / 2 {
			notice(fmt.Sprintf("i-%05d", i), events.SpotInterrupted)
			r.pass(time.Millisecond)
		}
		if n := len(r.w.memory.notices); n != strangersMax+2 {
			t.Fatalf("%d notices are kept, want those of ours and %d others", n, strangersMax)
		}
		if _, newest := r.w.memory.notices[noticeKey{fmt.Sprintf("i-%05d", 3*strangersMax/2-1), events.SpotInterrupted}]; !newest {
			t.Fatal("the newest was dropped")
		}
	})
}

func TestAnInterruptionFailsWhileNothingIsPublished(t *testing.T) {
	withAWS(t, func(t *testing.T, r *rig, aws *fakeAWS) {
		aws.synced.Store(true)
		i := &events.Interruption{MessageKind: "spot_interrupted", InstanceID: "i-1"}
		emit(t, aws.emitter, events.KindInterruption, "i-1", i)
		if err := aws.emitter.Flush(t.Context()); err != nil {
			t.Fatalf("flush: %v", err)
		}
		r.bus.Fail()
		r.pass(2 * time.Second)
		if err := aws.emitter.Emit(events.KindInterruption, events.OpUpsert, "i-1", "i-1", i); !errors.Is(err, ErrNoEpoch) {
			t.Fatalf("got %v, want ErrNoEpoch", err)
		}
		if err := aws.emitter.Flush(t.Context()); err == nil {
			t.Fatal("flushed without a bus")
		}
		emit(t, aws.emitter, events.KindInstanceState, "i-9", &events.InstanceState{ID: "i-9", State: "running"})
		r.bus.Release()
		r.pass(20 * time.Second)
		found := false
		for _, o := range r.observations() {
			found = found || o.Name == "i-9"
		}
		if !found {
			t.Fatal("what was emitted while the bus was away is not in the next epoch")
		}
	})
}

func TestEmitRefusesKindsOfKubernetes(t *testing.T) {
	withAWS(t, func(t *testing.T, r *rig, aws *fakeAWS) {
		if err := aws.emitter.Emit(events.KindPod, events.OpDelete, "x", "x", nil); err == nil {
			t.Fatal("emitted a pod")
		}
	})
}

func TestHeartbeatsTellWhenEC2WasPolled(t *testing.T) {
	withAWS(t, func(t *testing.T, r *rig, aws *fakeAWS) {
		aws.synced.Store(true)
		at := time.Now()
		aws.emitter.Polled(events.KindPrices, at)
		r.pass(2 * time.Second)
		all := r.observations()
		beat, ok := all[len(all)-1].Object.(*events.Heartbeat)
		if !ok || beat.Progress["Prices"] != at.UTC().Format(time.RFC3339) {
			t.Fatalf("progress %+v", beat)
		}
	})
}

// lagging is a World that has folded no more than the first messages of a stream.
type lagging struct {
	world *world.World
	at    events.Position
}

func (l *lagging) Position() (events.Position, bool) { return l.at, true }
func (l *lagging) Version() *world.World             { return l.world }
func (l *lagging) Torn() bool                        { return false }

// What was published last is not known as long as the World, restored or folded from the start, has not come
// to where the stream ended when the process began, complete as its last resync may be.
func TestZonalShiftsAreNotKnownToAWorldThatLags(t *testing.T) {
	run(t, nil, func(t *testing.T, r *rig) {
		r.pass(3 * time.Second)
		r.stop()
		state, err := r.bus.Connect(16).State(t.Context())
		if err != nil || state.Last < 2 {
			t.Fatal(state, err)
		}
		behind := &lagging{world: world.New(), at: events.Position{Incarnation: state.Incarnation, Sequence: state.Last - 1}}
		var w *Watcher
		r.start(func(c *Config) {
			c.World = behind
			c.AWS = func(e Emitter) (AWS, error) { w = e.(*Watcher); return &fakeAWS{}, nil }
		})
		if _, known := w.ZonalShifts(); known {
			t.Error("known one message before the end")
		}
		behind.at.Sequence = state.Last + 100
		if _, known := w.ZonalShifts(); !known {
			t.Error("not known though all is folded")
		}
		behind.at.Incarnation = "another"
		if _, known := w.ZonalShifts(); known {
			t.Error("known by another stream")
		}
	})
}
