package step

import (
	"context"
	"errors"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	corev1 "k8s.io/api/core/v1"

	"millwright/planner/ledger"
	"millwright/services/internal/host/fold"
	"millwright/services/internal/lane"
	"millwright/services/internal/service"
	"millwright/store"
)

func TestTheLastLeaderCarriesOnWhileTheLogIsAway(t *testing.T) {
	inBubble(t, func(r *rig) {
		r.stop()
		log := &stopLog{Log: r.log}
		r.start(log)
		h := r.host("lifecycle", ledger.ModeActive)
		if _, _, ok := h.DegradedTerm(context.Background()); ok {
			t.Fatal("a degraded term although the log answers")
		}
		log.away.Store(true)
		time.Sleep(3 * time.Second)
		led, release, ok := h.DegradedTerm(context.Background())
		if !ok || h.Leads() {
			t.Fatalf("degraded: %v, leads: %v", ok, h.Leads())
		}
		run := func(l lane.Lane) (ran bool) {
			h.Effect("x", l, time.Second, func(context.Context) error { ran = true; return nil })
			synctest.Wait()
			return ran
		}
		if run(lane.Create) || !run(lane.Converge) {
			t.Error("of the effects exactly those that create nothing are started")
		}
		if _, err := h.Outcome(led, service.Outcome{Kind: ledger.KindClaimRegistered, Payload: &ledger.ClaimRegistered{}}); !errors.Is(err, store.ErrFenced) {
			t.Errorf("an outcome was appended: %v", err)
		}
		ended := make(chan error, 1)
		h.Effect("long", lane.Converge, time.Hour, func(ctx context.Context) error { <-ctx.Done(); ended <- ctx.Err(); return ctx.Err() })
		log.away.Store(false)
		<-led.Done()
		if err := <-ended; err == nil {
			t.Error("its effects did not end with it")
		}
		release(context.Background())
		if run(lane.Converge) {
			t.Error("an effect was started after the degraded term")
		}
	})
}

func TestShadowCarriesOnWithNothing(t *testing.T) {
	inBubble(t, func(r *rig) {
		r.stop()
		log := &stopLog{Log: r.log}
		r.start(log)
		h := r.host("lifecycle", ledger.ModeShadow)
		log.away.Store(true)
		time.Sleep(3 * time.Second)
		_, release, _ := h.DegradedTerm(context.Background())
		defer release(context.Background())
		if h.Effect("x", lane.Converge, time.Second, func(context.Context) error { return nil }) {
			t.Error("a shadow service started an effect")
		}
	})
}

// listener collects KubeEvents.
type listener struct {
	mu   sync.Mutex
	list []string
}

func (h *listener) Publish(e service.KubeEvent) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.list = append(h.list, e.Object.Name+" "+e.Type+" "+e.Reason+": "+e.Message)
}

func (h *listener) reasons() []string {
	h.mu.Lock()
	defer h.mu.Unlock()
	var list []string
	for _, e := range h.list {
		reason, _, _ := strings.Cut(e, ":")
		list = append(list, reason)
	}
	return list
}

func TestStopsAndOutagesAreTold(t *testing.T) {
	inBubble(t, func(r *rig) {
		r.stop()
		log := &stopLog{Log: r.log}
		r.start(log)
		events := &listener{}
		notifier := &fold.OutageNotifier{State: r.state, Events: events, Object: corev1.ObjectReference{Name: "lease"}, Instance: "me", Speaks: func() bool { return true }}
		ctx, cancel := context.WithCancel(context.Background())
		defer cancel()
		go func() { _ = notifier.Run(ctx) }()
		r.operate(ledger.StopAll)
		time.Sleep(2 * time.Second)
		r.operate(ledger.StopNone)
		time.Sleep(2 * time.Second)
		log.away.Store(true)
		time.Sleep(4 * time.Second)
		if !r.state.LogUnreachable().IsZero() {
			t.Error("a short silence is called an outage")
		}
		began := time.Now().Add(-5 * time.Second)
		time.Sleep(20 * time.Second)
		if since := r.state.LogUnreachable(); since.Before(began) || since.After(began.Add(time.Second)) {
			t.Errorf("unreachable since %s, want about %s", since, began)
		}
		log.away.Store(false)
		time.Sleep(2 * time.Second)
		want := []string{"lease Warning Stopped", "lease Normal Resumed", "lease Warning LogUnreachable", "lease Normal LogReachable"}
		if got := events.reasons(); !slices.Equal(got, want) {
			t.Errorf("events %q, want %q", got, want)
		}
		if !slices.Contains(events.list, "lease Warning Stopped: Stopped (all) by ann: trial") {
			t.Errorf("events %q", events.list)
		}
	})
}
