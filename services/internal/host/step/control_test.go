package step

import (
	"context"
	"errors"
	"fmt"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"millwright/planner/ledger"
	"millwright/services/internal/lane"
	"millwright/store"
	"millwright/store/audit"
)

// stopLog can be out of reach, and may bring no records.
type stopLog struct {
	store.Log
	away, deaf, full atomic.Bool
	// lost: the next append is not stored, and nobody knows.
	lost atomic.Bool
}

var errAway = errors.New("log is away")

func (l *stopLog) Switch(ctx context.Context, name string) (string, store.Head, error) {
	if l.away.Load() {
		<-ctx.Done()
		return "", store.Head{}, errAway
	}
	return l.Log.Switch(ctx, name)
}

func (l *stopLog) Append(ctx context.Context, d store.Draft) (store.Record, error) {
	switch {
	case l.lost.Swap(false):
		return store.Record{}, errVague
	case l.full.Load():
		return store.Record{}, fmt.Errorf("at its quota: %w", store.ErrRefused)
	}
	return l.Log.Append(ctx, d)
}

func (l *stopLog) Watch(ctx context.Context, from uint64, fn func(store.Record) error) error {
	if l.deaf.Load() {
		<-ctx.Done()
		return ctx.Err()
	}
	return l.Log.Watch(ctx, from, fn)
}

// operate sets the stop as millctl does.
func (r *rig) operate(level ledger.Stop) store.Record {
	r.t.Helper()
	seen, err := r.log.Aggregate(r.t.Context(), ledger.ControlAggregate)
	if err != nil {
		r.t.Fatal(err)
	}
	draft, err := audit.ControlDraft(&ledger.ControlChanged{Stop: level, By: "ann", Why: "trial"}, seen)
	if err != nil {
		r.t.Fatal(err)
	}
	draft.Time = time.Now()
	rec, err := r.log.Append(r.t.Context(), draft)
	if err != nil {
		r.t.Fatal(err)
	}
	return rec
}

func TestAStopIsInEffectWithinASecond(t *testing.T) {
	for name, deaf := range map[string]bool{"by its record": false, "by its switch, where records come late": true} {
		t.Run(name, func(t *testing.T) {
			inBubble(t, func(r *rig) {
				r.stop()
				log := &stopLog{Log: r.log}
				log.deaf.Store(deaf)
				r.start(log)
				h := r.host("disruptor", ledger.ModeActive)
				for _, level := range []ledger.Stop{ledger.StopVoluntary, ledger.StopAll, ledger.StopNone} {
					r.operate(level)
					time.Sleep(time.Second)
					if got := h.Stop(); got != level {
						t.Errorf("stop %q, want %q", got, level)
					}
				}
			})
		})
	}
}

func TestAViewOfControlThatIsUnconfirmedActsAsUnderVoluntary(t *testing.T) {
	inBubble(t, func(r *rig) {
		r.stop()
		log := &stopLog{Log: r.log}
		r.start(log)
		h := r.host("disruptor", ledger.ModeActive)
		if h.Stop() != ledger.StopNone || h.LogAway() {
			t.Fatalf("stop %q at first", h.Stop())
		}
		changes, cancel := r.state.Subscribe()
		defer cancel()
		log.away.Store(true)
		time.Sleep(3 * time.Second)
		if h.Stop() != ledger.StopVoluntary || !h.LogAway() {
			t.Errorf("stop %q, away %v, when the log does not answer", h.Stop(), h.LogAway())
		}
		select {
		case <-changes:
		default:
			t.Error("nobody was told")
		}
		log.away.Store(false)
		time.Sleep(time.Second)
		if h.Stop() != ledger.StopNone || h.LogAway() {
			t.Errorf("stop %q, away %v, when it answers again", h.Stop(), h.LogAway())
		}
		r.operate(ledger.StopAll)
		time.Sleep(time.Second)
		log.away.Store(true)
		time.Sleep(3 * time.Second)
		if h.Stop() != ledger.StopAll {
			t.Errorf("stop %q: what is known to be stopped stays so", h.Stop())
		}
	})
}

func TestCreatingEffectsAreNotStartedWhenAllIsStopped(t *testing.T) {
	inBubble(t, func(r *rig) {
		h, _ := r.leading("lifecycle", ledger.ModeActive)
		run := func(l lane.Lane) (ran bool) {
			h.Effect("x", l, time.Second, func(context.Context) error { ran = true; return nil })
			synctest.Wait()
			return ran
		}
		for _, c := range []struct {
			level               ledger.Stop
			creating, otherwise bool
		}{{ledger.StopVoluntary, true, true}, {ledger.StopAll, false, true}, {ledger.StopNone, true, true}} {
			r.operate(c.level)
			synctest.Wait()
			if got := run(lane.Create); got != c.creating {
				t.Errorf("stop %q: creating effect ran: %v", c.level, got)
			}
			if got := run(lane.Converge); got != c.otherwise {
				t.Errorf("stop %q: other effect ran: %v", c.level, got)
			}
		}
	})
}
