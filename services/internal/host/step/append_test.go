package step

import (
	"context"
	"errors"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	corev1 "k8s.io/api/core/v1"

	"millwright/events"
	"millwright/planner"
	"millwright/planner/ledger"
	"millwright/services/internal/host/fold"
	"millwright/services/internal/lane"
	"millwright/services/internal/service"
	"millwright/store"
)

func TestDecideIsFoldedWhenItReturns(t *testing.T) {
	inBubble(t, func(r *rig) {
		h, _ := r.leading(ledger.ServiceProvisioner, ledger.ModeActive)
		rec, err := h.Decide(r.t.Context(), r.basis(h), r.decision(h, "p"))
		if err != nil {
			t.Fatal(err)
		}
		if err := h.Ledger(func(l *ledger.Ledger) error {
			if l.Seq() < rec.Seq || l.Aggregate("pool/p") != rec.Seq {
				t.Errorf("the ledger is at %d and has the pool at %d after record %d", l.Seq(), l.Aggregate("pool/p"), rec.Seq)
			}
			return nil
		}); err != nil {
			t.Error(err)
		}
		if rec.PlannerVersion != planner.Version || rec.Mode != "active" || rec.Service != ledger.ServiceProvisioner {
			t.Errorf("record says planner %d, mode %q, service %q", rec.PlannerVersion, rec.Mode, rec.Service)
		}
	})
}

func TestAConflictIsSeenByTheNextPlan(t *testing.T) {
	inBubble(t, func(r *rig) {
		h, _ := r.leading(ledger.ServiceProvisioner, ledger.ModeActive)
		other, _ := r.leading(ledger.ServiceDisruptor, ledger.ModeActive)
		stale := r.decision(h, "p")
		basis := r.basis(h)
		if _, err := other.Decide(r.t.Context(), basis, r.decision(other, "p")); err != nil {
			t.Fatal(err)
		}
		if _, err := h.Decide(r.t.Context(), basis, stale); !errors.Is(err, store.ErrConflict) {
			t.Fatalf("a stale decision: %v", err)
		}
		if _, err := h.Decide(r.t.Context(), r.basis(h), r.decision(h, "p")); err != nil {
			t.Errorf("the decision planned anew: %v", err)
		}
	})
}

func TestShadowTakesNothingAndDoesNothing(t *testing.T) {
	inBubble(t, func(r *rig) {
		h, _ := r.leading(ledger.ServiceProvisioner, ledger.ModeShadow)
		rec, err := h.Decide(r.t.Context(), r.basis(h), r.decision(h, "p"))
		if err != nil {
			t.Fatal(err)
		}
		if rec.Mode != "shadow" || len(rec.Advances) > 0 {
			t.Errorf("the record has mode %q and advances %v", rec.Mode, rec.Advances)
		}
		before := r.kinds()
		rec, err = h.Outcome(r.t.Context(), service.Outcome{Kind: ledger.KindCommandSucceeded, Payload: &ledger.CommandSucceeded{ID: "c"}})
		if err != nil || rec.Seq != 0 || len(r.kinds()) != len(before) {
			t.Errorf("an outcome was appended: record %d, error %v", rec.Seq, err)
		}
		if h.Effect("k", lane.Converge, 0, func(context.Context) error { t.Error("an effect ran"); return nil }) {
			t.Error("an effect was started")
		}
	})
}

func TestOptionsAndModeAreRecordedOnceAndOnChange(t *testing.T) {
	inBubble(t, func(r *rig) {
		r.leading(ledger.ServiceProvisioner, ledger.ModeActive)
		r.leading(ledger.ServiceLifecycle, ledger.ModeActive)
		r.leading(ledger.ServiceDisruptor, ledger.ModeShadow)
		if got, want := r.kinds(), []ledger.Kind{ledger.KindOptionsSet, ledger.KindModeChanged}; !slices.Equal(got, want) {
			t.Fatalf("records %v, want %v", got, want)
		}
		changed := r.host(ledger.ServiceTerminator, ledger.ModeActive)
		changed.options.InstanceTypesMax = 7
		lead, _ := r.elector.TryCampaign(store.Candidacy{Service: ledger.ServiceTerminator, Identity: "me"})
		_, release, err := changed.Lead(r.t.Context(), lead)
		if err != nil {
			t.Fatal(err)
		}
		release(r.t.Context())
		if got := r.kinds(); got[len(got)-1] != ledger.KindOptionsSet {
			t.Errorf("changed options were not recorded: %v", got)
		}
		if err := changed.Snapshot(service.ForEffects, func(s *planner.Snapshot) error {
			if s.Options.InstanceTypesMax != 7 || s.OptionsSeq == 0 {
				t.Errorf("the snapshot has options %+v of record %d", s.Options, s.OptionsSeq)
			}
			return nil
		}); err != nil {
			t.Error(err)
		}
	})
}

func TestAFencedAppendEndsTheTerm(t *testing.T) {
	inBubble(t, func(r *rig) {
		h, led := r.leading(ledger.ServiceProvisioner, ledger.ModeActive)
		basis, decision := r.basis(h), r.decision(h, "p")
		r.elector.Expire(ledger.ServiceProvisioner)
		if _, err := h.Decide(r.t.Context(), basis, decision); !errors.Is(err, store.ErrFenced) {
			t.Errorf("an append without the lease: %v", err)
		}
		synctest.Wait()
		if led.Err() == nil || !errors.Is(context.Cause(led), store.ErrFenced) {
			t.Errorf("the term goes on: %v", context.Cause(led))
		}
		if _, err := h.Decide(r.t.Context(), basis, decision); !errors.Is(err, store.ErrFenced) {
			t.Errorf("an append after the term: %v", err)
		}
	})
}

// vague is a log whose next append is stored although it reports an error, and which then answers no append
// until found is closed.
type vague struct {
	store.Log
	found chan struct{}
}

var errVague = errors.New("connection lost")

func (v *vague) Append(ctx context.Context, d store.Draft) (store.Record, error) {
	switch {
	case v.found == nil:
		return v.Log.Append(ctx, d)
	case ledger.Kind(d.Kind) != ledger.KindProvisioningPlanned:
		select {
		case <-v.found:
		case <-ctx.Done():
			return store.Record{}, ctx.Err()
		}
		return v.Log.Append(ctx, d)
	}
	if _, err := v.Log.Append(ctx, d); err != nil {
		return store.Record{}, err
	}
	return store.Record{}, errVague
}

func TestNoSnapshotWhileAnAppendIsUncertain(t *testing.T) {
	inBubble(t, func(r *rig) {
		r.stop()
		v := &vague{Log: r.log}
		r.start(v)
		h, _ := r.leading(ledger.ServiceProvisioner, ledger.ModeActive)
		basis, decision := r.basis(h), r.decision(h, "p")
		v.found = make(chan struct{})
		if _, err := h.Decide(r.t.Context(), basis, decision); !errors.Is(err, errVague) {
			t.Fatalf("got %v", err)
		}
		synctest.Wait()
		if err := r.snapshot(h, service.ForEffects); !errors.Is(err, service.ErrNotReady) {
			t.Errorf("a snapshot while the append is uncertain: %v", err)
		}
		close(v.found)
		synctest.Wait()
		if err := h.Ledger(func(l *ledger.Ledger) error {
			if l.Aggregate("pool/p") == 0 {
				t.Error("the ledger does not have the record that was stored")
			}
			return nil
		}); err != nil {
			t.Errorf("after it was looked up: %v", err)
		}
		head, err := r.log.Head(r.t.Context())
		if err != nil {
			t.Fatal(err)
		}
		records, err := r.log.Read(r.t.Context(), head.Seq, 1)
		if err != nil || ledger.Kind(records[0].Kind) != ledger.KindModeChanged || records[0].Service != ledger.ServiceProvisioner {
			t.Errorf("the head has not moved: what may still be under way can be stored (%v)", err)
		}
	})
}

// A log at its quota answers and refuses. What is recorded is carried on with, also by somebody who does not
// know whether an append before was stored.
func TestALogThatTakesNoRecordsIsAway(t *testing.T) {
	inBubble(t, func(r *rig) {
		r.stop()
		log := &stopLog{Log: r.log}
		r.start(log)
		told := &listener{}
		notifier := &fold.OutageNotifier{State: r.state, Events: told, Object: corev1.ObjectReference{Name: "lease"}, Instance: "me", Speaks: func() bool { return true }}
		ctx, cancel := context.WithCancel(context.Background())
		defer cancel()
		go func() { _ = notifier.Run(ctx) }()
		h, _ := r.leading(ledger.ServiceProvisioner, ledger.ModeActive)
		log.lost.Store(true)
		if _, err := h.Decide(r.t.Context(), r.basis(h), r.decision(h, "p")); !errors.Is(err, errVague) {
			t.Fatalf("got %v", err)
		}
		log.full.Store(true)
		for range 3 {
			time.Sleep(5 * time.Second)
			if !h.Leads() || !h.LogAway() || h.Stop() != ledger.StopVoluntary {
				t.Fatalf("leads %v, away %v, stop %q", h.Leads(), h.LogAway(), h.Stop())
			}
			r.publish(events.KindNone, events.OpHeartbeat, "", &events.Heartbeat{})
			synctest.Wait()
			if err := r.snapshot(h, service.ForEffects); err != nil {
				t.Errorf("no snapshot: %v", err)
			}
			if _, err := h.Decide(r.t.Context(), r.basis(h), r.decision(h, "q")); !errors.Is(err, store.ErrRefused) {
				t.Errorf("a decision while the log is full: %v", err)
			}
		}
		before := len(r.kinds())
		log.full.Store(false)
		time.Sleep(2 * time.Second)
		if h.LogAway() || h.Stop() != ledger.StopNone {
			t.Errorf("away %v, stop %q afterwards", h.LogAway(), h.Stop())
		}
		if n := len(r.kinds()) - before; n < 1 || n > 2 {
			t.Errorf("%d records told that the log takes records again", n)
		}
		if _, err := h.Decide(r.t.Context(), r.basis(h), r.decision(h, "q")); err != nil {
			t.Errorf("a decision afterwards: %v", err)
		}
		if got, want := told.reasons(), []string{"lease Warning LogReadOnly", "lease Normal LogWritable"}; !slices.Equal(got, want) {
			t.Errorf("events %q, want %q", got, want)
		}
	})
}
