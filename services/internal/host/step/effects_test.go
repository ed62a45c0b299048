package step

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"slices"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil"
	"github.com/rs/zerolog"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	karpv1 "millwright/api/karpenter/v1"
	"millwright/events"
	"millwright/planner/ledger"
	"millwright/services/internal/lane"
	"millwright/services/internal/service"
	"millwright/store"
)

func TestEffects(t *testing.T) {
	// until ends when release does or its own context.
	until := func(release <-chan struct{}, ended *error) func(context.Context) error {
		return func(ctx context.Context) error {
			select {
			case <-release:
			case <-ctx.Done():
				*ended = context.Cause(ctx)
			}
			return *ended
		}
	}
	cases := map[string]func(r *rig, h *Host){
		"one runs per key": func(r *rig, h *Host) {
			release, ended := make(chan struct{}), error(nil)
			if !h.Effect("k", lane.Converge, time.Minute, until(release, &ended)) {
				r.t.Error("the first was not started")
			}
			if h.Effect("k", lane.Converge, time.Minute, until(release, &ended)) {
				r.t.Error("the second was started too")
			}
			close(release)
			synctest.Wait()
			if !h.Effect("k", lane.Converge, time.Minute, func(context.Context) error { return nil }) {
				r.t.Error("after the first ended none is started")
			}
		},
		"their number is bounded, and what waits comes in its turn": func(r *rig, h *Host) {
			release, ended := make(chan struct{}), error(nil)
			var running, most, all atomic.Int32
			for _, key := range []string{"e", "d", "c", "b", "a"} {
				taken := h.Effect(key, lane.Converge, time.Minute, func(ctx context.Context) error {
					all.Add(1)
					most.Store(max(most.Load(), running.Add(1)))
					defer running.Add(-1)
					return until(release, &ended)(ctx)
				})
				if !taken {
					r.t.Errorf("%s was not taken", key)
				}
			}
			synctest.Wait()
			if n := running.Load(); n != 3 {
				r.t.Errorf("%d run, want 3", n)
			}
			close(release)
			synctest.Wait()
			if most.Load() != 3 || all.Load() != 5 {
				r.t.Errorf("%d of 5 ran, %d at a time, want 3", all.Load(), most.Load())
			}
		},
		"a hanging lane stops no other": func(r *rig, h *Host) {
			for i := range 100 {
				h.Effect(fmt.Sprint(i), lane.Create, time.Hour, func(ctx context.Context) error { <-ctx.Done(); return ctx.Err() })
			}
			ran := make(chan struct{})
			h.Effect("register", lane.Converge, time.Minute, func(context.Context) error { close(ran); return nil })
			synctest.Wait()
			select {
			case <-ran:
			default:
				r.t.Error("it waits for launches")
			}
			r.elector.Expire(ledger.ServiceLifecycle)
		},
		"they end at their timeout": func(r *rig, h *Host) {
			var ended error
			h.Effect("k", lane.Converge, time.Second, until(nil, &ended))
			time.Sleep(time.Second)
			synctest.Wait()
			if !errors.Is(ended, errEffectTimeout) {
				r.t.Errorf("ended by %v", ended)
			}
		},
		"they end with the leadership": func(r *rig, h *Host) {
			var ended error
			h.Effect("k", lane.Converge, time.Hour, until(nil, &ended))
			r.elector.Expire(ledger.ServiceLifecycle)
			synctest.Wait()
			if !errors.Is(ended, store.ErrFenced) {
				r.t.Errorf("ended by %v", ended)
			}
			if h.Effect("l", lane.Converge, time.Hour, until(nil, &ended)) {
				r.t.Error("one was started without leadership")
			}
		},
		"they wake the service": func(r *rig, h *Host) {
			changed, cancel := h.Changes()
			defer cancel()
			h.Effect("k", lane.Converge, time.Hour, func(context.Context) error { return nil })
			synctest.Wait()
			select {
			case <-changed:
			default:
				r.t.Error("the end of an effect is no change")
			}
		},
		"one that panics ends nothing else, and is not tried again at once": func(r *rig, h *Host) {
			release, ended := make(chan struct{}), error(nil)
			h.Effect("other", lane.Converge, time.Hour, until(release, &ended))
			tries := 0
			try := func(context.Context) error { tries++; var none *Host; return errors.New(none.name) }
			h.Effect("k", lane.Converge, time.Hour, try)
			synctest.Wait()
			if h.Effect("k", lane.Converge, time.Hour, try) || tries != 1 {
				r.t.Errorf("tried %d times, and again at once", tries)
			}
			time.Sleep(panicPause + time.Second)
			if !h.Effect("k", lane.Converge, time.Hour, func(context.Context) error { return nil }) {
				r.t.Error("never tried again")
			}
			close(release)
			synctest.Wait()
			if ended != nil {
				r.t.Errorf("the other was ended by %v", ended)
			}
		},
		"none starts while another installation may act": func(r *rig, h *Host) {
			h.mayAct = func() bool { return false }
			if h.Effect("k", lane.Converge, time.Hour, func(context.Context) error { return nil }) {
				r.t.Error("one was started")
			}
		},
	}
	for name, test := range cases {
		t.Run(name, func(t *testing.T) {
			inBubble(t, func(r *rig) {
				h, _ := r.leading(ledger.ServiceLifecycle, ledger.ModeActive)
				test(r, h)
				synctest.Wait()
			})
		})
	}
}

// shortLease stands until a time that the test may move.
type shortLease struct {
	store.Leadership
	until atomic.Pointer[time.Time]
	done  chan struct{}
}

func (s *shortLease) stands(until time.Time) { s.until.Store(&until) }

func (s *shortLease) Deadline() time.Time                             { return *s.until.Load() }
func (s *shortLease) Report(context.Context, map[string]string) error { return nil }
func (s *shortLease) Done() <-chan struct{}                           { return s.done }
func (s *shortLease) Lease() store.Lease                              { return store.Lease{} }

// createUntilEnded starts a creating effect that goes on until it is ended, and says how long that took.
func createUntilEnded(h *Host) <-chan time.Duration {
	began, lasted := time.Now(), make(chan time.Duration, 1)
	h.Effect("create", lane.Create, time.Hour, func(ctx context.Context) error {
		<-ctx.Done()
		lasted <- time.Since(began)
		return ctx.Err()
	})
	return lasted
}

func TestACreatingEffectEndsBeforeTheLease(t *testing.T) {
	inBubble(t, func(r *rig) {
		h := r.host(ledger.ServiceLifecycle, ledger.ModeActive)
		lease := &shortLease{done: make(chan struct{})}
		lease.stands(time.Now().Add(2 * time.Second))
		_, release, err := h.Lead(r.t.Context(), lease)
		if err != nil {
			t.Fatal(err)
		}
		lasted := createUntilEnded(h)
		time.Sleep(time.Second)
		lease.stands(lease.Deadline().Add(3 * time.Second)) // renewed
		time.Sleep(10 * time.Second)
		if took, want := <-lasted, 5*time.Second-leaseMargin; took != want {
			t.Errorf("it ended after %s, want %s", took, want)
		}
		release(r.t.Context())
	})
}

func TestAFencedEffectDoesNothingOnceTheLeaseMayHaveEnded(t *testing.T) {
	inBubble(t, func(r *rig) {
		h := r.host(ledger.ServiceLifecycle, ledger.ModeActive)
		lease := &shortLease{done: make(chan struct{})}
		lease.stands(time.Now().Add(time.Second))
		_, release, err := h.Lead(r.t.Context(), lease)
		if err != nil {
			t.Fatal(err)
		}
		time.Sleep(time.Minute) // as if frozen: nobody has told it yet that another leads
		for l, want := range map[lane.Lane]error{lane.Create: store.ErrFenced, lane.Release: store.ErrFenced, lane.Converge: nil} {
			ended := make(chan error, 1)
			if !h.Effect(string(l), l, time.Hour, func(ctx context.Context) error { ended <- context.Cause(ctx); return nil }) {
				t.Fatalf("%s: not taken", l)
			}
			if got := <-ended; !errors.Is(got, want) {
				t.Errorf("%s: began with %v, want %v", l, got, want)
			}
		}
		release(r.t.Context())
	})
}

func TestACreatingEffectEndsBeforeTheRightToAct(t *testing.T) {
	inBubble(t, func(r *rig) {
		h := r.host(ledger.ServiceLifecycle, ledger.ModeActive)
		lease := &shortLease{done: make(chan struct{})}
		lease.stands(time.Now().Add(time.Hour))
		until := time.Now().Add(4 * time.Second)
		h.until = func() time.Time { return until }
		_, release, err := h.Lead(r.t.Context(), lease)
		if err != nil {
			t.Fatal(err)
		}
		lasted := createUntilEnded(h)
		if took, want := <-lasted, 4*time.Second-leaseMargin; took != want {
			t.Errorf("it ended after %s, want %s", took, want)
		}
		release(r.t.Context())
	})
}

func TestAnAdoptionIsRecordedOnce(t *testing.T) {
	inBubble(t, func(r *rig) {
		for range 2 {
			h := r.host(ledger.ServiceLifecycle, ledger.ModeActive)
			h.adopt = []string{"other", "more"}
			lead, _ := r.elector.TryCampaign(store.Candidacy{Service: ledger.ServiceLifecycle, Identity: "me"})
			_, release, err := h.Lead(r.t.Context(), lead)
			if err != nil {
				t.Fatal(err)
			}
			release(r.t.Context())
			if err := lead.Resign(r.t.Context()); err != nil {
				t.Fatal(err)
			}
		}
		adoptions := slices.DeleteFunc(r.kinds(), func(k ledger.Kind) bool { return k != ledger.KindLogAdopted })
		if len(adoptions) != 1 || !r.state.HasAdopted("other") || !r.state.HasAdopted("more") || r.state.HasAdopted("third") {
			t.Errorf("records: %v", r.kinds())
		}
	})
}

type counted struct{ steps int }

func (c *counted) Name() string                                { return ledger.ServiceLifecycle }
func (c *counted) Step(context.Context) (time.Duration, error) { c.steps++; return time.Second, nil }

func TestOnlyTheActorIsSteppedAndHeard(t *testing.T) {
	for name, c := range map[string]struct {
		mode        ledger.Mode
		may         bool
		steps, told int
	}{
		"the actor":                     {ledger.ModeActive, true, 1, 1},
		"another installation may act":  {ledger.ModeActive, false, 0, 0},
		"a shadow beside another actor": {ledger.ModeShadow, false, 1, 0},
	} {
		t.Run(name, func(t *testing.T) {
			inBubble(t, func(r *rig) {
				h, _ := r.leading(ledger.ServiceLifecycle, c.mode)
				heard := &heard{}
				h.mayAct, h.events = func() bool { return c.may }, heard
				s := &counted{}
				_, err := h.Gate(s).Step(t.Context())
				if s.steps != c.steps || errors.Is(err, service.ErrNotReady) != (c.steps == 0) {
					t.Errorf("stepped %d times, error %v", s.steps, err)
				}
				h.Event(service.KubeEvent{Reason: "Nominated"})
				if heard.count != c.told {
					t.Errorf("%d events, want %d", heard.count, c.told)
				}
			})
		})
	}
}

type heard struct {
	count int
	last  service.KubeEvent
}

func (h *heard) Publish(e service.KubeEvent) { h.count, h.last = h.count+1, e }

// kubectl describe asks for the events with the UID of the object.
func TestAnEventHasTheUIDOfItsObject(t *testing.T) {
	inBubble(t, func(r *rig) {
		r.resync()
		r.node("n", nil)
		r.publish(events.KindNodeClaim, events.OpUpsert, "c", &karpv1.NodeClaim{ObjectMeta: metav1.ObjectMeta{Name: "c", UID: "uid-c"}})
		r.publish(events.KindNodePool, events.OpUpsert, "p", &karpv1.NodePool{ObjectMeta: metav1.ObjectMeta{Name: "p", UID: "uid-p"}})
		h, _ := r.leading(ledger.ServiceDisruptor, ledger.ModeActive)
		heard := &heard{}
		h.events = heard
		for _, c := range []struct {
			object corev1.ObjectReference
			want   types.UID
		}{
			{corev1.ObjectReference{Kind: "Node", Name: "n"}, "uid-n"},
			{corev1.ObjectReference{Kind: "NodeClaim", Name: "c"}, "uid-c"},
			{corev1.ObjectReference{Kind: "NodePool", Name: "p"}, "uid-p"},
			{corev1.ObjectReference{Kind: "Node", Name: "n", UID: "uid-of-who-tells"}, "uid-of-who-tells"},
			{corev1.ObjectReference{Kind: "Node", Name: "gone"}, ""},
			{corev1.ObjectReference{Kind: "Lease", Name: "n"}, ""},
		} {
			h.Event(service.KubeEvent{Object: c.object, Reason: "Unconsolidatable"})
			if got := heard.last.Object.UID; got != c.want {
				t.Errorf("%s/%s: UID %q, want %q", c.object.Kind, c.object.Name, got, c.want)
			}
		}
	})
}

func TestReleaseWaitsForEffectsAndThenEndsThem(t *testing.T) {
	inBubble(t, func(r *rig) {
		h := r.host(ledger.ServiceLifecycle, ledger.ModeActive)
		lead, _ := r.elector.TryCampaign(store.Candidacy{Service: ledger.ServiceLifecycle, Identity: "me"})
		_, release, err := h.Lead(context.WithoutCancel(r.t.Context()), lead)
		if err != nil {
			t.Fatal(err)
		}
		var quick, slow error
		h.Effect("quick", lane.Converge, time.Hour, func(ctx context.Context) error {
			time.Sleep(time.Second)
			quick = ctx.Err()
			return nil
		})
		h.Effect("slow", lane.Converge, time.Hour, func(ctx context.Context) error {
			<-ctx.Done()
			slow = ctx.Err()
			return slow
		})
		drain, cancel := context.WithTimeout(r.t.Context(), 5*time.Second)
		defer cancel()
		began := time.Now()
		release(drain)
		if quick != nil || slow == nil || time.Since(began) != 5*time.Second {
			t.Errorf("released after %s: the quick effect ended with %v, the slow one with %v", time.Since(began), quick, slow)
		}
	})
}

// TestWhatIsNotReadyHasNotFailed: an effect that looks again before its own record is folded is postponed,
// without a word.
func TestWhatIsNotReadyHasNotFailed(t *testing.T) {
	var log bytes.Buffer
	m := newMetrics(prometheus.NewRegistry(), "lifecycle")
	p := newPool(1, m, zerolog.New(&log).Level(zerolog.InfoLevel), func() {})
	p.finish("claim/a", lane.Converge, fmt.Errorf("look again: %w", fmt.Errorf("%w: own record 7 is not folded yet", service.ErrNotReady)))
	if n := testutil.ToFloat64(m.effects.WithLabelValues("not_ready")); n != 1 || log.Len() > 0 {
		t.Errorf("counted %v times, logged %q", n, log.String())
	}
	p.finish("claim/a", lane.Converge, errors.New("no route to host"))
	if n := testutil.ToFloat64(m.effects.WithLabelValues("failed")); n != 1 || log.Len() == 0 {
		t.Errorf("counted %v failures, logged %q", n, log.String())
	}
}
