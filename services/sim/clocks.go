package sim

import (
	"context"
	"fmt"
	"time"

	"millwright/planner/ledger"
	witness "millwright/services/internal/clock"
	"millwright/services/internal/service"
	"millwright/services/sim/stage"
	"millwright/store"
	"millwright/store/audit"
)

// machine is what a process runs on: a clock that may be wrong, and the process's checks of it.
type machine struct {
	sim *Sim
	// wrong is how far the clock is ahead of the true time.
	wrong   time.Duration
	checked *witness.Clock
}

func (s *Sim) newMachine(wrong time.Duration) *machine {
	m := &machine{sim: s, wrong: wrong}
	m.checked = witness.New(witness.Config{
		Wall:      func() time.Time { return s.Clock.Now().Add(m.wrong) },
		Monotonic: func() time.Duration { return s.Clock.Now().Sub(stage.Start) + time.Second },
	})
	return m
}

// hearTime takes in the date of an answer to a request that was sent at a reading of the monotonic clock.
func (m *machine) hearTime(from target, asked time.Duration, answered time.Time) {
	switch date := answered.Truncate(time.Second); from {
	case toKube:
		m.checked.Witness(witness.APIServer, asked, date)
	case toEC2:
		m.checked.Witness(witness.AWS, asked, date)
	}
}

// ask asks the API server for the time, if that is due; it reports whether the clock can be relied on.
func (m *machine) ask() bool {
	silence, heard := m.checked.Silence()
	if due := !heard || silence > askEvery || m.checked.Check() != nil; due && !m.sim.isAway(toKube) {
		m.hearTime(toKube, m.checked.Monotonic()-5*time.Millisecond, m.sim.Clock.Now())
	}
	return m.checked.Check() == nil
}

const (
	// lookEvery is how often a process checks its clock, askEvery how long witnesses may be silent.
	lookEvery = time.Second
	askEvery  = 15 * time.Second
	// drainTime is how long the effects of a process that stands down may go on.
	drainTime = 10 * time.Second
)

// keepClock makes the process stand down when its clock cannot be relied on.
func (p *process) keepClock() {
	p.sim.Clock.Every(lookEvery, func() bool {
		p.run(func() {
			if !p.machine.ask() && p.leads() && !p.standsDown {
				p.standDown()
			}
		})
		return !p.dead
	})
}

// standDown gives the leadership up once the running effects have ended; a successor campaigns.
func (p *process) standDown() {
	p.sim.Trace("%s: stands down: %v", p, p.machine.checked.Check())
	p.sim.Stats.StoodDown++
	p.standsDown = true
	p.after(drainTime, func() { p.sim.end(p) })
}

// reliable returns why the clock cannot be relied on, as what services ask says it.
func (p *process) reliable() error {
	if err := p.machine.checked.Check(); err != nil {
		return fmt.Errorf("%w: %w", service.ErrNotReady, err)
	}
	return nil
}

// offs are how far clocks are off at worst.
var offs = []time.Duration{7 * time.Second, 20 * time.Minute, time.Hour, 25 * time.Hour, 31 * 24 * time.Hour}

func (s *Sim) drawOff() time.Duration {
	off := offs[s.Rng.IntN(len(offs))]
	if s.Happens(500) {
		return -off
	}
	return off
}

const watcherName = ledger.ServiceWatcher

// misset sets the clock of one service's machine, or of the watcher's, to another time for a while. Whichever
// process runs there meanwhile has it.
func (s *Sim) misset() {
	name := append([]string{watcherName}, services...)[s.Rng.IntN(len(services)+1)]
	off := s.drawOff()
	s.Trace("clock of the machine of %s: off by %s", name, off)
	s.setClock(name, off)
	s.Clock.After(s.Millis(2000, 40_000), func() { s.setClock(name, 0) })
}

func (s *Sim) setClock(name string, wrong time.Duration) {
	s.wrong[name] = wrong
	if name == watcherName {
		s.watcher.machine.wrong = wrong
	} else if p := s.alive[name]; p != nil {
		p.machine.wrong = wrong
	}
}

// leap appends a record from the future, or from the past, as a version before clocks had witnesses would.
func (s *Sim) leap() {
	draft, err := audit.OutcomeDraft(audit.Outcome{Kind: ledger.KindAlarmRaised, Payload: &ledger.AlarmRaised{Reason: "simulated"}})
	if err == nil {
		draft.Time, draft.Service, draft.Mode = s.Clock.Now().Add(offs[s.Rng.IntN(len(offs))]), ledger.ServiceLifecycle, string(ledger.ModeActive)
		var rec store.Record
		if rec, err = s.Log.Append(context.Background(), draft); err == nil {
			s.Trace("log: record %d is of %s", rec.Seq, rec.Time)
			s.stored(nil, rec)
		}
	}
	if err != nil {
		s.Violate("anybody can append", "%v", err)
	}
}
