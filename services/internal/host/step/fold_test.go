package step

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"google.golang.org/protobuf/proto"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"millwright/events"
	"millwright/planner"
	"millwright/planner/ledger"
	wire "millwright/proto"
	"millwright/services/internal/host/fold"
	"millwright/services/internal/service"
	"millwright/store"
)

func TestUnknownKinds(t *testing.T) {
	cases := map[string]struct {
		draft     store.Draft
		standDown bool
	}{
		"an ignorable one is passed over":           {draft: store.Draft{Kind: 999, Ignorable: true}},
		"any other makes the service stand down":    {draft: store.Draft{Kind: 999}, standDown: true},
		"a payload that can't be read does as well": {draft: store.Draft{Kind: uint16(ledger.KindClaimClosed), Payload: []byte("{")}, standDown: true},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			inBubble(t, func(r *rig) {
				h, _ := r.leading(ledger.ServiceProvisioner, ledger.ModeActive)
				c.draft.Time, c.draft.Service, c.draft.Mode = time.Now(), "future", "active"
				if _, err := r.log.Append(r.t.Context(), c.draft); err != nil {
					t.Fatal(err)
				}
				synctest.Wait()
				err := r.snapshot(h, service.ForEffects)
				if got := errors.Is(err, fold.ErrStandDown); got != c.standDown {
					t.Errorf("stands down: %v (%v), want %v", got, err, c.standDown)
				}
				if failed := h.Failed() != nil; failed != c.standDown {
					t.Errorf("failed: %v", failed)
				}
				if _, err := h.Outcome(r.t.Context(), service.Outcome{Kind: ledger.KindCommandSucceeded, Payload: &ledger.CommandSucceeded{}}); (err != nil) != c.standDown {
					t.Errorf("an append ended with %v", err)
				}
				if ready := r.state.Ready() == nil; ready == c.standDown {
					t.Errorf("ready: %v", ready)
				}
			})
		})
	}
}

func TestAnUnreadableObservationIsPassedOver(t *testing.T) {
	inBubble(t, func(r *rig) {
		h, _ := r.leading(ledger.ServiceProvisioner, ledger.ModeActive)
		r.resync()
		r.send([]byte("\xff\xff not an observation"))
		r.node("n", nil)
		if err := h.Snapshot(service.ForProvisioning, func(s *planner.Snapshot) error {
			if s.World.Node("n") == nil {
				t.Error("what came after it is not folded")
			}
			return nil
		}); err != nil {
			t.Error(err)
		}
	})
}

func TestANewStreamStartsANewWorld(t *testing.T) {
	inBubble(t, func(r *rig) {
		h, _ := r.leading(ledger.ServiceProvisioner, ledger.ModeActive)
		r.resync()
		r.node("old", nil)
		if _, err := r.stream.Renew(r.t.Context()); err != nil {
			t.Fatal(err)
		}
		time.Sleep(time.Minute)
		if err := r.snapshot(h, service.ForProvisioning); !errors.Is(err, service.ErrNotReady) {
			t.Errorf("before its resync: %v", err)
		}
		r.resync()
		if err := h.Snapshot(service.ForDisruption, func(s *planner.Snapshot) error {
			if s.World.Node("old") != nil {
				t.Error("a node of the old stream is left")
			}
			return nil
		}); err != nil {
			t.Errorf("after its resync: %v", err)
		}
	})
}

func TestAWorldThatIsNotWhatWasPublishedIsFoldedAnew(t *testing.T) {
	inBubble(t, func(r *rig) {
		r.resync()
		r.node("a", nil)
		before := r.state.Version().Node("a").Object
		for range 2 { // the second is within the minute
			r.publish(events.KindNone, events.OpHeartbeat, "", &events.Heartbeat{Sums: map[string]events.Sum{"Node": {Count: 2}}})
		}
		time.Sleep(10 * time.Second)
		synctest.Wait()
		w := r.state.Version()
		if n := w.Node("a"); n == nil || n.Object == before || !r.state.Torn() {
			t.Errorf("with its node: %t, folded anew: %t, torn: %t", n != nil, n != nil && n.Object != before, r.state.Torn())
		}
		if n := counterOf(t, r.registry, "millwright_world_drifts_total"); n != 1 {
			t.Errorf("counted %v times", n)
		}
		r.resync()
		if r.state.Torn() {
			t.Error("torn after a resync")
		}
	})
}

// wayward is a stream as its first consumer finds it: fn is called in place of what that is to be given.
type wayward struct {
	events.Stream
	fn    func(m events.Message, deliver func(events.Message) error) error
	calls int
}

func (s *wayward) Consume(ctx context.Context, from uint64, deliver func(events.Message) error) error {
	s.calls++
	if s.calls > 1 {
		return s.Stream.Consume(ctx, from, deliver)
	}
	return s.Stream.Consume(ctx, from, func(m events.Message) error { return s.fn(m, deliver) })
}

// The watcher's World is whole, so that no other epoch comes.
func TestAWorldThatIsTornInOneProcessAloneIsFoldedAnew(t *testing.T) {
	inBubble(t, func(r *rig) {
		stream := &wayward{Stream: r.stream, fn: func(m events.Message, deliver func(events.Message) error) error {
			if m.Sequence == 1 { // the begin of the resync
				return nil
			}
			return deliver(m)
		}}
		r.restartWith(func(cfg *fold.StateConfig) { cfg.Stream = stream })
		r.resync()
		heartbeats := func(d time.Duration, h events.Heartbeat) {
			for end := time.Now().Add(d); time.Now().Before(end); time.Sleep(10 * time.Second) {
				r.publish(events.KindNone, events.OpHeartbeat, "", &h)
			}
		}
		heartbeats(5*time.Minute, events.Heartbeat{})
		if stream.calls != 1 {
			t.Errorf("folded %d times while the watcher's own resync may still run", stream.calls)
		}
		heartbeats(30*time.Second, events.Heartbeat{Sums: map[string]events.Sum{"Node": {}}})
		if _, synced := r.state.Position(); !synced || r.state.Torn() || stream.calls != 2 {
			t.Errorf("synced %t, torn %t, folded %d times", synced, r.state.Torn(), stream.calls)
		}
	})
}

// The stream lost its end and was written on: the World's position is in it, but not what was folded.
func TestAWorldOfMessagesThatTheStreamLostIsFoldedAnew(t *testing.T) {
	inBubble(t, func(r *rig) {
		lost, err := events.Encode(events.Observation{Epoch: 1, Counter: 4, Kind: events.KindNode, Op: events.OpUpsert, UID: "uid-lost", Name: "lost",
			Object: &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "lost", UID: "uid-lost"}}})
		if err != nil {
			t.Fatal(err)
		}
		r.restartWith(func(cfg *fold.StateConfig) {
			cfg.Stream = &wayward{Stream: r.stream, fn: func(m events.Message, deliver func(events.Message) error) error {
				switch m.Sequence {
				case 4:
					m.Data = lost
				case 5:
					return events.ErrRenewed
				}
				return deliver(m)
			}}
		})
		r.resync()
		r.node("a", nil)
		if r.state.Version().Node("lost") == nil {
			t.Fatal("what is lost later is not folded")
		}
		r.node("b", nil)
		time.Sleep(10 * time.Second)
		synctest.Wait()
		if w := r.state.Version(); w.Node("lost") != nil || w.Node("a") == nil || w.Node("b") == nil {
			t.Errorf("nodes lost, a and b are there: %t, %t, %t", w.Node("lost") != nil, w.Node("a") != nil, w.Node("b") != nil)
		}
	})
}

func TestAStartBeginsAtTheNewestCheckpoint(t *testing.T) {
	inBubble(t, func(r *rig) {
		r.resync()
		r.node("a", nil)
		w := r.state.Version()
		at := w.Position()
		name, _, err := events.WriteCheckpoint(t.Context(), r.stream.Blobs(), at, w.WriteCheckpoint)
		if err != nil {
			t.Fatal(err)
		}
		whole, err := r.stream.Blobs().Get(t.Context(), name)
		if err != nil {
			t.Fatal(err)
		}
		for i, content := range [][]byte{[]byte("broken"), whole[:len(whole)/2], nil} {
			if err := r.stream.Blobs().Put(t.Context(), events.CheckpointName(at.Incarnation, at.Sequence+1+uint64(i)), content); err != nil {
				t.Fatal(err)
			}
		}
		for _, name := range []string{"b", "c", "d"} {
			r.node(name, nil)
		}
		r.bus.Discard(at.Sequence) // the messages before are no longer retained
		want, _ := r.state.Position()
		r.stop()
		r.start(r.log)
		if got, _ := r.state.Position(); got != want {
			t.Errorf("folded up to %+v, want %+v", got, want)
		}
		if _, synced := r.state.Position(); !synced {
			t.Error("what the checkpoint held is missing")
		}
	})
}

// counterOf is the value of a counter.
func counterOf(t *testing.T, from *prometheus.Registry, name string) (n float64) {
	t.Helper()
	families, err := from.Gather()
	if err != nil {
		t.Fatal(err)
	}
	for _, f := range families {
		if f.GetName() == name {
			for _, m := range f.GetMetric() {
				n += m.GetCounter().GetValue()
			}
		}
	}
	return n
}

// It is seen how long the World has not been whole, from when the process began or a message was missed.
func TestHowLongTheWorldIsNotWholeIsSeen(t *testing.T) {
	inBubble(t, func(r *rig) {
		unsynced := func(want time.Duration) {
			t.Helper()
			families, err := r.registry.Gather()
			if err != nil {
				t.Fatal(err)
			}
			for _, f := range families {
				if f.GetName() == "karpenter_cluster_state_unsynced_time_seconds" {
					if got := f.GetMetric()[0].GetGauge().GetValue(); got != want.Seconds() {
						t.Errorf("unsynced for %v s, want %s", got, want)
					}
					return
				}
			}
			t.Error("there is no such metric")
		}
		time.Sleep(5 * time.Second)
		unsynced(5 * time.Second)
		r.resync()
		time.Sleep(time.Second)
		unsynced(0)
		r.counter++ // a message is lost
		r.beat()
		time.Sleep(7 * time.Second)
		unsynced(7 * time.Second)
	})
}

// Services are older than the watcher while an upgrade rolls out.
func TestObjectsOfALaterVersionsWatcherDoNotTearTheWorld(t *testing.T) {
	inBubble(t, func(r *rig) {
		r.publish(events.KindNone, events.OpResyncBegin, "", nil)
		r.counter++
		data, err := proto.Marshal(&wire.Observation{Epoch: 1, Counter: r.counter, Kind: 200, Op: 1, Name: "a", Object: []byte("{}")})
		if err != nil {
			t.Fatal(err)
		}
		r.send(data)
		r.publish(events.KindNone, events.OpResyncEnd, "", nil)
		if _, synced := r.state.Position(); !synced || r.state.Torn() {
			t.Errorf("synced %t, torn %t", synced, r.state.Torn())
		}
		if n := counterOf(t, r.registry, "millwright_observations_refused_total"); n != 1 {
			t.Errorf("refused %v", n)
		}
	})
}
