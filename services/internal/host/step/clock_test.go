package step

import (
	"context"
	"errors"
	"slices"
	"testing"
	"time"

	"millwright/planner/ledger"
	"millwright/services/internal/host/fold"
	"millwright/services/internal/lane"
	"millwright/services/internal/service"
	"millwright/store/audit"
)

var errOff = errors.New("the clock is at least 744h0m0s ahead of that of api-server")

// A process whose clock is off decides nothing, begins nothing and records only what came of what it has
// begun.
func TestAClockThatIsOff(t *testing.T) {
	inBubble(t, func(r *rig) {
		var off error
		r.restartWith(func(cfg *fold.StateConfig) { cfg.Reliable = func() error { return off } })
		h, _ := r.leading(ledger.ServiceLifecycle, ledger.ModeActive)
		r.resync()
		basis, decision, ctx := r.basis(h), r.decision(h, "a"), r.t.Context()
		off = errOff
		before := len(r.kinds())
		refused := map[string]error{
			"a snapshot":  r.snapshot(h, service.ForEffects),
			"a note":      h.Note(ctx, ledger.KindAlarmRaised, &ledger.AlarmRaised{Reason: "x"}, "", 0),
			"its options": h.announceOptions(ctx, []byte(`{"batchIdle":1}`)),
		}
		_, refused["a decision"] = h.Decide(ctx, basis, decision)
		for what, err := range refused {
			if !errors.Is(err, fold.ErrClock) || !errors.Is(err, service.ErrNotReady) || !errors.Is(err, errOff) {
				t.Errorf("%s: %v", what, err)
			}
		}
		for _, l := range []lane.Lane{lane.Converge, lane.Create} {
			if h.Effect("x", l, time.Minute, func(context.Context) error { return nil }) {
				t.Errorf("an effect is begun in lane %s", l)
			}
		}
		if n := len(r.kinds()) - before; n != 0 || h.Stop() != ledger.StopAll || h.standing()[audit.ReportClock] != errOff.Error() {
			t.Errorf("%d records, stop %q, reported %v", n, h.Stop(), h.standing())
		}
		outcome := service.Outcome{Kind: ledger.KindClaimInitialized, Payload: &ledger.ClaimInitialized{Claim: "c", Node: "n"}}
		if _, err := h.Outcome(ctx, outcome); err != nil || !slices.Contains(r.kinds(), ledger.KindClaimInitialized) {
			t.Errorf("the outcome of what is under way is not recorded: %v", err)
		}
		off = nil
		if err := r.snapshot(h, service.ForDisruption); err != nil || h.Stop() != ledger.StopNone {
			t.Errorf("once it can be relied on: %v, stop %q", err, h.Stop())
		}
	})
}

// The clock of this process is right and the watcher's is not: nothing is planned upon what it publishes.
func TestAWatcherWhoseClockIsAhead(t *testing.T) {
	inBubble(t, func(r *rig) {
		var behind time.Duration
		r.restartWith(func(cfg *fold.StateConfig) { cfg.Clock = func() time.Time { return time.Now().Add(-behind) } })
		h, _ := r.leading(ledger.ServiceProvisioner, ledger.ModeActive)
		r.resync()
		behind = time.Minute
		if err := r.snapshot(h, service.ForProvisioning); !errors.Is(err, service.ErrNotReady) {
			t.Errorf("a World a minute ahead is used: %v", err)
		}
		if err := r.snapshot(h, service.ForEffects); err != nil {
			t.Errorf("effects do not depend on it: %v", err)
		}
	})
}
