package watcher

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	karpv1 "millwright/api/karpenter/v1"
	"millwright/events"
)

func TestAnEpochHoldsEveryObjectAndThenChanges(t *testing.T) {
	run(t, nil, func(t *testing.T, r *rig) {
		r.expectPods("a", "b", "c")
		all := r.observations()
		if all[0].Op != events.OpResyncBegin || all[0].Counter != 1 {
			t.Fatalf("first is %+v", all[0])
		}
		r.kube.put("d")
		r.kube.remove("a")
		r.expectPods("b", "c", "d")
	})
}

func TestAHeartbeatEachSecondCarriesProgress(t *testing.T) {
	run(t, nil, func(t *testing.T, r *rig) {
		before := r.count(events.OpHeartbeat)
		r.pass(5 * time.Second)
		if got := r.count(events.OpHeartbeat) - before; got != 5 {
			t.Fatalf("%d heartbeats in 5 s", got)
		}
		all := r.observations()
		last := all[len(all)-1]
		if beat, ok := last.Object.(*events.Heartbeat); !ok || beat.Progress["Pod"] != "3" {
			t.Fatalf("last is %s with %+v", last.Op, last.Object)
		}
		if age := time.Since(r.world().AsOf()); age > time.Second {
			t.Fatalf("as-of is %s old", age)
		}
	})
}

func TestNoHeartbeatWhileTheAPIServerDoesNotAnswer(t *testing.T) {
	run(t, nil, func(t *testing.T, r *rig) {
		r.kube.die(errors.New("connection refused"))
		before := r.count(events.OpHeartbeat)
		r.pass(5 * time.Second)
		if got := r.count(events.OpHeartbeat) - before; got != 0 {
			t.Fatalf("%d heartbeats without an API server", got)
		}
		r.kube.die(nil)
		r.pass(2 * time.Second)
		if got := r.count(events.OpHeartbeat) - before; got != 2 {
			t.Fatalf("%d heartbeats after it came back", got)
		}
		if int(r.kube.lists.Load()) != 1 {
			t.Fatalf("%d lists: silence is no reason for a resync", int(r.kube.lists.Load()))
		}
	})
}

func TestAFailedPublishStartsANewEpoch(t *testing.T) {
	run(t, nil, func(t *testing.T, r *rig) {
		before := r.observations()
		r.bus.Fail()
		r.kube.put("d")
		r.kube.remove("a")
		r.pass(3 * time.Second)
		if int(r.kube.lists.Load()) != 1 {
			t.Fatal("the API server was listed although the bus is away")
		}
		r.bus.Release()
		r.pass(15 * time.Second)
		after := r.observations()
		if after[len(after)-1].Epoch <= before[0].Epoch {
			t.Fatal("no later epoch")
		}
		r.expectPods("b", "c", "d")
	})
}

func TestLostAcknowledgementsAreNoticedWithoutAPublish(t *testing.T) {
	run(t, nil, func(t *testing.T, r *rig) {
		r.bus.Hold()
		r.kube.put("d") // accepted, never stored
		r.bus.Fail()
		r.pass(2 * time.Second)
		r.bus.Release()
		r.pass(15 * time.Second)
		r.expectPods("a", "b", "c", "d")
	})
}

func TestAFullQueueSlowsDownAndLosesNothing(t *testing.T) {
	run(t, nil, func(t *testing.T, r *rig) {
		r.bus.Hold()
		done := make(chan struct{})
		go func() {
			defer close(done)
			for i := range 50 {
				r.kube.put([]string{"a", "b", "c", "d", "e"}[i%5])
			}
		}()
		r.pass(500 * time.Millisecond)
		select {
		case <-done:
			t.Fatal("50 publishes went into a queue of 16")
		default:
		}
		r.bus.Release()
		<-done
		r.expectPods("a", "b", "c", "d", "e")
		if int(r.kube.lists.Load()) != 1 {
			t.Fatalf("%d lists", int(r.kube.lists.Load()))
		}
	})
}

func TestABusThatDoesNotAnswerEndsTheEpoch(t *testing.T) {
	run(t, nil, func(t *testing.T, r *rig) {
		epoch := r.observations()[0].Epoch
		r.bus.Hold()
		r.kube.put("d")
		r.pass(30 * time.Second) // beyond the flush timeout
		r.bus.Release()
		r.pass(30 * time.Second)
		all := r.observations()
		if all[len(all)-1].Epoch == epoch {
			t.Fatal("no new epoch")
		}
		r.expectPods("a", "b", "c", "d")
	})
}

func TestAnObjectThatIsTooLargeIsPublishedByName(t *testing.T) {
	run(t, nil, func(t *testing.T, r *rig) {
		pod := newFakeKube("huge").pods["huge"]
		pod.Labels = map[string]string{"x": strings.Repeat("y", events.MaxObjectBytes)}
		if err := r.kube.sink.Publish(r.kube.change(events.OpUpsert, pod)); err != nil {
			t.Fatal(err)
		}
		all := r.observations()
		last := all[len(all)-1]
		if last.Op != events.OpUnreadable || last.Name != "default/huge" || last.Object != nil {
			t.Fatalf("last is %s of %q", last.Op, last.Name)
		}
		r.expectPods("a", "b", "c")
	})
}

// A time in the year 10000 can be published and not be read: it would tear every World, in each new epoch
// again.
func TestAnObjectThatCouldNotBeReadIsPublishedByName(t *testing.T) {
	run(t, nil, func(t *testing.T, r *rig) {
		pool := &karpv1.NodePool{ObjectMeta: metav1.ObjectMeta{Name: "far", UID: "uid-far", ResourceVersion: "9"}}
		pool.CreationTimestamp = metav1.NewTime(time.Date(9999, 12, 31, 23, 0, 0, 0, time.FixedZone("", -5*3600)))
		c := Change{Kind: events.KindNodePool, Op: events.OpUpsert, UID: "uid-far", Name: "far", ResourceVersion: "9", Object: pool}
		c.Sum.Add("far", "uid-far", "9")
		if err := r.kube.sink.Publish(c); err != nil {
			t.Fatal(err)
		}
		r.pass(2 * time.Second)
		if w := r.world(); w.Torn() || len(w.Unreadable()) != 1 {
			t.Errorf("torn %v, unreadable %v", w.Torn(), w.Unreadable())
		}
		r.expectPods("a", "b", "c")
	})
}

func TestARenewedStreamGetsAnEpochOfItsOwn(t *testing.T) {
	run(t, nil, func(t *testing.T, r *rig) {
		if _, err := r.bus.Connect(1).Renew(t.Context()); err != nil {
			t.Fatal(err)
		}
		r.pass(3 * time.Second)
		r.expectPods("a", "b", "c")
	})
}

func TestEpochsRiseOverRestartsAlsoWhenTheClockFalls(t *testing.T) {
	run(t, nil, func(t *testing.T, r *rig) {
		for i := range 3 {
			r.stop()
			r.start(func(c *Config) {
				c.Clock = func() time.Time { return time.Now().Add(-time.Duration(i) * 24 * time.Hour) }
			})
		}
		r.expectPods("a", "b", "c") // observations checks the order
		if int(r.kube.lists.Load()) != 4 {
			t.Fatalf("%d lists for 4 starts", int(r.kube.lists.Load()))
		}
	})
}

// forgetful acknowledges a message that it does not store.
type forgetful struct {
	events.Stream
	forget atomic.Bool
}

func (f *forgetful) Publish(ctx context.Context, data []byte) error {
	if f.forget.CompareAndSwap(true, false) {
		return nil
	}
	return f.Stream.Publish(ctx, data)
}

func TestATornWorldIsRepairedByAResync(t *testing.T) {
	bus := &forgetful{}
	run(t, func(c *Config) { bus.Stream = c.Stream; c.Stream = bus }, func(t *testing.T, r *rig) {
		r.pass(3 * time.Second)
		for range 3 {
			bus.forget.Store(true)
			r.kube.put("d")
			r.pass(time.Second)
			if !r.w.own.Torn() {
				t.Fatal("the fold did not notice")
			}
			r.pass(70 * time.Second)
			if r.w.own.Torn() {
				t.Fatal("still torn")
			}
		}
		if int(r.kube.lists.Load()) != 4 {
			t.Fatalf("%d lists for 3 lost messages", int(r.kube.lists.Load()))
		}
	})
}

func TestAWorldThatDriftedIsFoundWithin30Seconds(t *testing.T) {
	run(t, nil, func(t *testing.T, r *rig) {
		r.pass(time.Minute)
		if r.w.own.Torn() || int(r.kube.lists.Load()) != 1 {
			t.Fatalf("torn %t, %d lists while nothing was wrong", r.w.own.Torn(), int(r.kube.lists.Load()))
		}
		for i := range 3 {
			r.kube.silent = true
			r.kube.put("lost") // known to the watcher, and in no World
			r.kube.silent = false
			r.kube.put("d") // carries the sum
			took := time.Duration(0)
			for ; int(r.kube.lists.Load()) == i+1 && took < 30*time.Second; took += 100 * time.Millisecond {
				r.pass(100 * time.Millisecond)
			}
			r.pass(time.Second)
			if int(r.kube.lists.Load()) != i+2 || r.world().Pod("uid-lost") == nil {
				t.Fatalf("%d lists after %d drifts", int(r.kube.lists.Load()), i+1)
			}
			t.Logf("found after %s", took)
			r.kube.remove("lost")
			r.pass(time.Minute)
		}
	})
}

func TestEpochsOfTwoLogsDiffer(t *testing.T) {
	if logBits("0123456789abcdef") == logBits("fedcba9876543210") {
		t.Fatal("the log-id does not show in the epoch")
	}
}

func TestMetricsNameEveryOutcome(t *testing.T) {
	run(t, nil, func(t *testing.T, r *rig) {
		published := r.w.metrics.published.WithLabelValues("Pod", "upsert")
		if got := value(t, published); got != 3 {
			t.Fatalf("published pods: %v", got)
		}
		if got := value(t, r.w.metrics.resyncs); got != 1 {
			t.Fatalf("resyncs: %v", got)
		}
		r.pass(2 * time.Second)
		last, folded := value(t, r.w.metrics.streamLast), value(t, r.w.metrics.folded)
		if want := float64(len(r.observations())); folded != want || fmt.Sprint(last) == "0" {
			t.Fatalf("stream at %v, folded %v, want %v", last, folded, want)
		}
	})
}
