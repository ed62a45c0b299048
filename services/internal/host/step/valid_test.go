package step

import (
	"errors"
	"testing"
	"time"

	"millwright/planner"
	"millwright/planner/ledger"
	"millwright/services/internal/host/fold"
	"millwright/services/internal/service"
)

func TestSnapshotValidity(t *testing.T) {
	all := []service.Freshness{service.ForEffects, service.ForProvisioning, service.ForDisruption}
	cases := map[string]struct {
		given func(r *rig, h *Host)
		valid []service.Freshness
	}{
		"before the first resync only recorded intents go on": {given: func(r *rig, _ *Host) { r.beat() }, valid: all[:1]},
		"after a resync all is valid":                         {given: func(r *rig, _ *Host) { r.resync() }, valid: all},
		"a gap in the watcher's counter forbids disruption": {valid: all[:2], given: func(r *rig, _ *Host) {
			r.resync()
			r.counter++
			r.beat()
		}},
		"three seconds without heartbeat are allowed": {valid: all, given: func(r *rig, _ *Host) {
			r.resync()
			time.Sleep(3 * time.Second)
		}},
		"after more than three seconds without heartbeat nothing is disrupted": {valid: all[:2], given: func(r *rig, _ *Host) {
			r.resync()
			time.Sleep(3*time.Second + time.Millisecond)
		}},
		"after more than ten seconds without heartbeat nothing is planned": {valid: all[:1], given: func(r *rig, _ *Host) {
			r.resync()
			time.Sleep(10*time.Second + time.Millisecond)
		}},
		"an object that names a record beyond the ledger makes it wait": {valid: all[:1], given: func(r *rig, h *Host) {
			r.resync()
			r.node("n", map[string]string{"millwright.sh/record": ledger.RecordAnnotation(h.LogID(), 999)})
		}},
		"a node that names a record the log does not have holds up nothing for long": {valid: all, given: func(r *rig, h *Host) {
			r.resync()
			r.node("n", map[string]string{"millwright.sh/record": ledger.RecordAnnotation(h.LogID(), 999)})
			time.Sleep(6 * time.Second)
			r.beat()
		}},
		"an object of another log does not": {valid: all, given: func(r *rig, _ *Host) {
			r.resync()
			r.node("n", map[string]string{"millwright.sh/record": ledger.RecordAnnotation("another", 999)})
		}},
		"a record that names a position beyond the world makes it wait": {valid: all[:1], given: func(r *rig, h *Host) {
			r.resync()
			basis := r.basis(h)
			basis.Position.Sequence += 5
			if _, err := h.Decide(r.t.Context(), basis, r.decision(h, "p")); err != nil {
				r.t.Fatal(err)
			}
		}},
		"a position of another stream does not": {valid: all, given: func(r *rig, h *Host) {
			r.resync()
			basis := r.basis(h)
			basis.Position.Incarnation, basis.Position.Sequence = "earlier", 1000
			if _, err := h.Decide(r.t.Context(), basis, r.decision(h, "p")); err != nil {
				r.t.Fatal(err)
			}
		}},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			inBubble(t, func(r *rig) {
				h, _ := r.leading(ledger.ServiceProvisioner, ledger.ModeActive)
				c.given(r, h)
				var valid []service.Freshness
				for _, need := range all {
					switch err := r.snapshot(h, need); {
					case err == nil:
						valid = append(valid, need)
					case !errors.Is(err, service.ErrNotReady):
						t.Errorf("the error of freshness %d is %v", need, err)
					}
				}
				if len(valid) != len(c.valid) {
					t.Errorf("valid for %v, want %v", valid, c.valid)
				}
			})
		})
	}
}

func TestNowIsNotBehindTheLogOrTheWorldByALittle(t *testing.T) {
	inBubble(t, func(r *rig) {
		var behind time.Duration
		r.restartWith(func(cfg *fold.StateConfig) { cfg.Clock = func() time.Time { return time.Now().Add(-behind) } })
		h, _ := r.leading(ledger.ServiceProvisioner, ledger.ModeActive)
		r.resync()
		behind = ledger.ClockTolerance
		if err := h.Snapshot(service.ForDisruption, func(s *planner.Snapshot) error {
			if s.Now.Before(s.World.AsOf()) || s.Now.Before(s.Ledger.LastTime()) {
				t.Errorf("now %s, as-of %s, last record %s", s.Now, s.World.AsOf(), s.Ledger.LastTime())
			}
			return nil
		}); err != nil {
			t.Error(err)
		}
	})
}
