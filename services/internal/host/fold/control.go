package fold

import (
	"context"
	"encoding/json"
	"fmt"
	"sync"
	"time"

	"millwright/planner/ledger"
	"millwright/services/internal/clock"
)

const (
	// controlEvery is how often the stop switch is read; controlTimeout bounds a read.
	controlEvery   = 250 * time.Millisecond
	controlTimeout = 900 * time.Millisecond
	// controlTrusted is how long a view of the switch counts as confirmed (DESIGN §5).
	controlTrusted = time.Second
	// controlSettled is how long the view must have been confirmed before that is logged.
	controlSettled = 10 * time.Second
)

// control is this process's view of the operators' stop switch. It has two sources, the folded log and reads
// of the switch itself; the one that is further along in the log counts.
type control struct {
	mu sync.Mutex
	// changed is the last order; its level is one that this version knows.
	changed ledger.ControlChanged
	// seq is the sequence in the log at which it is known to hold.
	seq uint64
	// confirmed is when the last successful read was started: the log answered then, and stop was not older.
	confirmed time.Time
}

// setOrder takes in the order that held at a sequence. An unknown level counts as the strictest.
func (c *control) setOrder(changed ledger.ControlChanged, seq uint64) {
	if !changed.Stop.Known() {
		changed.Stop = ledger.StopAll
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if seq >= c.seq {
		c.changed, c.seq = changed, seq
	}
}

func (c *control) last() ledger.ControlChanged {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.changed
}

func (c *control) confirm(at time.Time) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.confirmed = at
}

// setBack takes in that the clock was set back and the log has not answered since: how long it has been
// silent is counted from now on.
func (c *control) setBack(now time.Time) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.confirmed.After(now) {
		c.confirmed = now.Add(-controlTrusted - 1)
	}
}

// view returns the stop as last seen, and until when it was confirmed.
func (c *control) view() (ledger.Stop, time.Time) {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.changed.Stop, c.confirmed
}

func (c *control) isUnconfirmed(now time.Time) bool {
	_, confirmed := c.view()
	ago := now.Sub(confirmed)
	return ago > controlTrusted || ago < 0
}

// Stop implements service.Host for all services of the process. It takes no lock of the State.
func (s *State) Stop() ledger.Stop {
	stop, _ := s.control.view()
	switch {
	case s.reliable() != nil:
		return ledger.StopAll
	case s.LogAway():
		return stop.AtLeast(ledger.StopVoluntary)
	}
	return stop
}

// LogAway reports that the log has not answered for longer than a view of the switch is trusted, or takes no
// records. After the clock was set back it is not known whether it answers until it does.
func (s *State) LogAway() bool {
	refused, _ := s.Writes.refused()
	return !refused.IsZero() || s.control.isUnconfirmed(s.clock())
}

// watchControl reads the switch until ctx ends.
func (s *State) watchControl(ctx context.Context) error {
	last, away := s.Stop(), s.LogAway()
	told := stopTold{stop: last}
	for ctx.Err() == nil {
		asked := s.clock()
		if err := s.readControl(ctx); err != nil && ctx.Err() == nil {
			s.control.setBack(s.clock())
			s.logger.Debug().Err(err).Msg("control not confirmed")
		}
		now, gone := s.Stop(), s.LogAway()
		if told.worth(now, gone, s.clock()) {
			s.logger.Warn().Str("stop", string(now)).Bool("confirmed", !gone).Msg("stop changed")
		}
		if now != last || gone != away {
			last, away = now, gone
			s.signals.Broadcast()
		}
		_ = clock.Sleep(ctx, min(max(controlEvery-s.clock().Sub(asked), time.Millisecond), controlEvery))
	}
	return nil
}

// stopTold is what was logged last. On a slow log the view alternates between confirmed and not: that is
// logged once, and its end when it has lasted.
type stopTold struct {
	stop ledger.Stop
	away bool
	// awayAt is when the log was last away.
	awayAt time.Time
}

// worth reports that there is something new to log, and counts it as logged.
func (t *stopTold) worth(now ledger.Stop, away bool, at time.Time) bool {
	if away {
		t.awayAt = at
	}
	switch {
	case away != t.away && (away || at.Sub(t.awayAt).Abs() >= controlSettled):
	case now != t.stop && !away && !t.away:
	case now == ledger.StopAll && t.stop != now:
	default:
		return false
	}
	t.stop, t.away = now, away
	return true
}

// readControl confirms the view. A switch that cannot be parsed confirms nothing.
func (s *State) readControl(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, controlTimeout)
	defer cancel()
	asked := s.clock()
	value, head, err := s.Log.Switch(ctx, ledger.SwitchStop)
	if err != nil {
		return fmt.Errorf("read stop switch: %w", err)
	}
	var c ledger.ControlChanged
	if value != "" {
		if err := json.Unmarshal([]byte(value), &c); err != nil {
			return fmt.Errorf("decode stop switch: %w", err)
		}
	}
	s.control.setOrder(c, head.Seq)
	s.control.confirm(asked)
	return nil
}
