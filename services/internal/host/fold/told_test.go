package fold

import (
	"errors"
	"testing"
	"time"

	"millwright/planner/ledger"
	"millwright/services/internal/clock"
)

func TestTheClockIsToldOnce(t *testing.T) {
	state := idle()
	off := errors.New("the clock is an hour ahead")
	n := &OutageNotifier{State: state, Instance: "pod-1"}
	if e := n.clock(nil); e != nil {
		t.Errorf("told of a right clock: %v", e)
	}
	state.reliable = func() error { return clock.ErrUnwitnessed }
	if e := n.clock(nil); e != nil {
		t.Errorf("told of the first moments of a process: %v", e)
	}
	state.reliable = func() error { return off }
	if e := n.clock(nil); e == nil || e.Reason != "ClockUnreliable" {
		t.Errorf("not told: %v", e)
	}
	if e := n.clock(off); e != nil {
		t.Errorf("told twice: %v", e)
	}
	state.reliable = func() error { return nil }
	if e := n.clock(off); e == nil || e.Reason != "ClockReliable" {
		t.Errorf("not told that it is over: %v", e)
	}
}

func TestWhatIsToldOfTheStop(t *testing.T) {
	none, voluntary, all := ledger.StopNone, ledger.StopVoluntary, ledger.StopAll
	type look struct {
		after time.Duration
		stop  ledger.Stop
		away  bool
		told  bool
	}
	flapping := []look{{0, none, false, false}, {0, voluntary, true, true}}
	for range 40 {
		flapping = append(flapping, look{250 * time.Millisecond, none, false, false}, look{250 * time.Millisecond, voluntary, true, false})
	}
	for name, looks := range map[string][]look{
		"what an operator orders, at once":         {{0, none, false, false}, {1, voluntary, false, true}, {1, voluntary, false, false}, {1, none, false, true}},
		"that the log is away, once":               append(flapping, look{time.Second, none, false, false}, look{9 * time.Second, none, false, true}),
		"a stop of all, also while it is away":     {{0, voluntary, true, true}, {1, all, true, true}, {1, none, false, false}, {controlSettled, none, false, true}},
		"what was ordered while it was away, then": {{0, voluntary, true, true}, {1, voluntary, false, false}, {controlSettled, voluntary, false, true}},
	} {
		t.Run(name, func(t *testing.T) {
			told, at := stopTold{stop: none}, time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)
			for i, l := range looks {
				at = at.Add(l.after)
				if got := told.worth(l.stop, l.away, at); got != l.told {
					t.Fatalf("look %d, stop %q, away %v: told %v", i, l.stop, l.away, got)
				}
			}
		})
	}
}
