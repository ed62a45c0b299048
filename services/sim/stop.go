package sim

import (
	"context"

	"millwright/planner/ledger"
	"millwright/services/sim/stage"
	"millwright/store/audit"
)

// stopForAWhile lets an operator stop the services and resume them later.
func (s *Sim) stopForAWhile() {
	if s.Operator.Stop != ledger.StopNone || s.isAway(toLog) {
		return
	}
	s.operate([]ledger.Stop{ledger.StopVoluntary, ledger.StopAll}[s.Rng.IntN(2)])
	s.Clock.After(s.Millis(2000, 40_000), s.resumeAll)
}

// resumeAll ends a stop as soon as the log is reachable.
func (s *Sim) resumeAll() {
	if away := s.away[toLog].Sub(s.Clock.Now()); away > 0 {
		s.Clock.After(away, s.resumeAll)
		return
	}
	if s.Operator.Stop != ledger.StopNone {
		s.operate(ledger.StopNone)
	}
}

func (s *Sim) operate(stop ledger.Stop) {
	s.Trace("user: stops %q", stop)
	ctx := context.Background()
	seen, err := s.Log.Aggregate(ctx, ledger.ControlAggregate)
	if err == nil {
		draft, draftErr := audit.ControlDraft(&ledger.ControlChanged{Stop: stop, By: "operator", Why: "simulated"}, seen)
		draft.Time = s.Clock.Now()
		if err = draftErr; err == nil {
			rec, appendErr := s.Log.Append(ctx, draft)
			if err = appendErr; err == nil {
				s.Operator = stage.Operator{Stop: stop, Before: s.Operator.Stop, Seq: rec.Seq, Since: s.Clock.Now()}
				s.stored(nil, rec)
			}
		}
	}
	if err != nil {
		s.Violate("operators can stop", "%v", err)
	}
}

// Stop is what the switch says: each process reads it a while after it was set, or in the record of it.
func (p *process) Stop() ledger.Stop {
	if p.reliable() != nil {
		return ledger.StopAll
	}
	o := &p.sim.Operator
	stop := o.Stop
	if p.ledger.Seq() < o.Seq && p.sim.Clock.Now().Sub(o.Since) < p.stopLag {
		stop = o.Before
	}
	if p.LogAway() && stop == ledger.StopNone {
		return ledger.StopVoluntary
	}
	return stop
}

// LogAway: nobody has read the switch for longer than a view of it is trusted, or the log takes no records.
func (p *process) LogAway() bool {
	return p.shut || p.sim.isAway(toLog) && p.sim.Clock.Now().Sub(p.sim.logAwaySince) > stage.StopLag
}
