package retention_test

import (
	"context"
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/rs/zerolog"
	"k8s.io/apimachinery/pkg/types"

	"millwright/planner"
	"millwright/planner/ledger"
	"millwright/services/internal/host/fold"
	"millwright/services/internal/host/step"
	"millwright/services/internal/retention"
	"millwright/services/internal/service"
	"millwright/store"
)

// patience bounds what must happen sooner or later; nothing asserts that it happens fast.
const patience = time.Minute

// rig is a lifecycle host that leads, and the keeper beside it.
type rig struct {
	t    *testing.T
	log  store.Log
	host *step.Host
	// events are the KubeEvents published.
	mu     sync.Mutex
	events []service.KubeEvent
}

// lead starts a host of lifecycle over the log, which ends with the test. others lead or stand by beside it.
func lead(t *testing.T, log store.Log, elector store.Elector, others ...store.Leader) *rig {
	t.Helper()
	r := &rig{t: t, log: log}
	state := fold.NewState(fold.StateConfig{Log: log, Candidates: func(context.Context) ([]store.Leader, error) { return others, nil }, Logger: zerolog.Nop(), Registerer: prometheus.NewRegistry()})
	ctx, cancel := context.WithCancel(context.Background())
	if err := state.CatchUp(ctx); err != nil {
		t.Fatal(err)
	}
	var group sync.WaitGroup
	group.Go(func() { _ = state.Run(ctx) })
	r.host = step.New(step.Config{Service: ledger.ServiceLifecycle, Mode: ledger.ModeActive, State: state, Options: planner.DefaultOptions(),
		Events: r, Logger: zerolog.Nop(), Registerer: prometheus.NewRegistry()})
	lead, err := elector.Campaign(ctx, store.Candidacy{Service: ledger.ServiceLifecycle, Identity: "me"})
	if err != nil {
		t.Fatal(err)
	}
	_, release, err := r.host.Lead(ctx, lead)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		release(ctx)
		_ = lead.Resign(ctx)
		cancel()
		group.Wait()
	})
	return r
}

// Publish implements fold.Publisher.
func (r *rig) Publish(e service.KubeEvent) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.events = append(r.events, e)
}

func (r *rig) keeper(every uint64) *retention.Keeper {
	return retention.New(retention.Config{Host: r.host, Log: r.log, Policy: retention.Policy{Every: every}, Logger: zerolog.Nop(), Registerer: prometheus.NewRegistry()})
}

// live records n rounds of a cluster's life: pods refused, claims planned and closed.
func (r *rig) live(n int) {
	r.t.Helper()
	for i := range n {
		r.round(i)
	}
}

func (r *rig) round(i int) {
	pods := []ledger.PodRef{{UID: types.UID(fmt.Sprintf("u%d", i%7)), Namespace: "default", Name: fmt.Sprintf("web-%d", i%7)}}
	planned := &ledger.ProvisioningPlanned{Claims: []ledger.PlannedClaim{{NodePool: "general", Pods: pods}}}
	r.noteRecord(ledger.KindProvisioningPlanned, planned)
	var claim string
	_ = r.host.Ledger(func(l *ledger.Ledger) error { claim = ledger.ClaimName(l.LogID(), "general", l.Seq(), 0); return nil })
	if i%3 > 0 {
		r.noteRecord(ledger.KindClaimClosed, &ledger.ClaimClosed{Claim: claim})
	}
}

func (r *rig) noteRecord(kind ledger.Kind, payload any) {
	r.t.Helper()
	if err := r.host.Note(bounded(r.t), kind, payload, "", 0); err != nil {
		r.t.Fatal(err)
	}
}

// keep does one round on a Ledger that has folded the whole log.
func (r *rig) keep(k *retention.Keeper) {
	r.t.Helper()
	r.awaitFold()
	if err := k.Round(bounded(r.t)); err != nil {
		r.t.Fatal(err)
	}
}

func (r *rig) awaitFold() {
	r.t.Helper()
	head, err := r.log.Head(bounded(r.t))
	if err != nil {
		r.t.Fatal(err)
	}
	for end := time.Now().Add(patience); ; time.Sleep(time.Millisecond) {
		var folded uint64
		if err := r.host.Ledger(func(l *ledger.Ledger) error { folded = l.Seq(); return nil }); err == nil && folded >= head.Seq {
			return
		}
		if time.Now().After(end) {
			r.t.Fatalf("folded up to %d of %d", folded, head.Seq)
		}
	}
}

func bounded(t *testing.T) context.Context {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	t.Cleanup(cancel)
	return ctx
}
