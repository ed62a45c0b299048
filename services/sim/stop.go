package sim

import (
	"context"
	"strings"
	"time"

	"millwright/planner/ledger"
	"millwright/store/audit"
)

// stopLag is within which every service has to heed an operator's stop.
const stopLag = time.Second

// operator is what operators have asked for, from which record on and since when.
type operator struct {
	stop, before ledger.Stop
	seq          uint64
	since        time.Time
}

// stopForAWhile has an operator stop the services and let them go on later.
func (s *Sim) stopForAWhile() {
	if s.operator.stop != ledger.StopNone || s.isAway(toLog) {
		return
	}
	s.operate([]ledger.Stop{ledger.StopVoluntary, ledger.StopAll}[s.rng.IntN(2)])
	s.clock.After(s.millis(2000, 40_000), s.resumeAll)
}

// resumeAll ends a stop as soon as the log can be reached.
func (s *Sim) resumeAll() {
	if away := s.away[toLog].Sub(s.clock.Now()); away > 0 {
		s.clock.After(away, s.resumeAll)
		return
	}
	if s.operator.stop != ledger.StopNone {
		s.operate(ledger.StopNone)
	}
}

func (s *Sim) operate(stop ledger.Stop) {
	s.trace("user: stops %q", stop)
	ctx := context.Background()
	seen, err := s.log.Aggregate(ctx, ledger.ControlAggregate)
	if err == nil {
		draft, draftErr := audit.ControlDraft(&ledger.ControlChanged{Stop: stop, By: "operator", Why: "simulated"}, seen)
		draft.Time = s.clock.Now()
		if err = draftErr; err == nil {
			rec, appendErr := s.log.Append(ctx, draft)
			if err = appendErr; err == nil {
				s.operator = operator{stop, s.operator.stop, rec.Seq, s.clock.Now()}
				s.stored(nil, rec)
			}
		}
	}
	if err != nil {
		s.violate("operators can stop", "%v", err)
	}
}

// Stop is what the switch says: each process reads it a while after it was set, or in the record of it.
func (p *process) Stop() ledger.Stop {
	if p.reliable() != nil {
		return ledger.StopAll
	}
	o := &p.sim.operator
	stop := o.stop
	if p.ledger.Seq() < o.seq && p.sim.clock.Now().Sub(o.since) < p.stopLag {
		stop = o.before
	}
	if p.LogAway() && stop == ledger.StopNone {
		return ledger.StopVoluntary
	}
	return stop
}

// LogAway: nobody has read the switch for longer than that is trusted.
func (p *process) LogAway() bool {
	return p.sim.isAway(toLog) && p.sim.clock.Now().Sub(p.sim.logAwaySince) > stopLag
}

// checkStopped demands that nothing is begun that operators have stopped.
func (s *Sim) checkStopped(by *process, call string) {
	if s.clock.Now().Sub(s.operator.since) <= stopLag {
		return
	}
	var forbidden []string
	switch s.operator.stop {
	case ledger.StopAll:
		forbidden = []string{"create nodeclaim", "delete nodeclaim", "ec2:CreateFleet", "ec2:TerminateInstances", "evict pod", "delete pod"}
	case ledger.StopVoluntary:
		if by.name == ledger.ServiceDisruptor {
			forbidden = []string{"delete nodeclaim"}
		}
	}
	for _, f := range forbidden {
		if strings.HasPrefix(call, f) {
			s.violate(CheckStopped, "%s: %s, stopped (%s) for %s", by, call, s.operator.stop, s.clock.Now().Sub(s.operator.since))
		}
	}
}
