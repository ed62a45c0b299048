package sim

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"time"

	"millwright/events"
	"millwright/planner"
	"millwright/planner/ledger"
	"millwright/planner/world"
	"millwright/services/internal/lane"
	"millwright/services/internal/service"
	"millwright/services/sim/cluster"
	"millwright/services/sim/stage"
	"millwright/store"
)

const (
	// leaseTime is how long a dead or frozen leader's lease lasts; fenced effects end leaseMargin before its
	// end.
	leaseTime   = 3 * time.Second
	leaseMargin = 300 * time.Millisecond

	notReadyRetry = time.Second
	retryFirst    = 50 * time.Millisecond
	retryMax      = 10 * time.Second
)

// process runs one service from its start to its death.
type process struct {
	sim    *Sim
	name   string
	number int
	// machine has the clock of the process; standsDown: it cannot be relied on, and running effects are
	// brought to their end.
	machine    *machine
	standsDown bool
	// tempo is how many times longer than in a small cluster the pause before a step is: changes in the
	// meantime are handled in one step.
	tempo   int
	mode    ledger.Mode
	service service.Service

	world    *world.World
	streamAt uint64
	ledger   *ledger.Ledger
	view     *cluster.View
	// folding: a read of log, stream or informers is in flight.
	folding map[string]bool
	// readsUntil is when the last read ends that is late.
	readsUntil time.Time
	// refused are the writes that were answered with a conflict.
	refused map[string]bool

	ctx    context.Context
	cancel context.CancelCauseFunc
	lead   store.Leadership
	// leaseEnd is when the lease of a frozen leader ends; zero while it is renewed.
	leaseEnd    time.Time
	frozenUntil time.Time
	dead        bool

	running map[string]*coroutine
	lanes   *lane.Queue[func()]
	// steps runs one step after the other; stepping: one is under way.
	steps    *coroutine
	stepping bool
	// due: a step is set; dirty: something changed while one runs; timer numbers the wake-ups.
	due, dirty bool
	timer      int
	retry      time.Duration
	heldBack   time.Time
	// unready: the last step had no valid Snapshot.
	unready bool

	// stopLag is how long after a stop the process knows of it at the latest.
	stopLag time.Duration

	uncertain int
	// shut: the log refused an append, and has stored none since.
	shut   bool
	ownSeq uint64
}

func (p *process) String() string { return fmt.Sprintf("%s/%d", p.name, p.number) }

// after runs fn in the process: later if it is frozen, never if it is dead.
func (p *process) after(d time.Duration, fn func()) {
	p.sim.Clock.After(d, func() { p.run(fn) })
}

func (p *process) run(fn func()) {
	switch now := p.sim.Clock.Now(); {
	case p.dead:
	case now.Before(p.frozenUntil):
		p.after(p.frozenUntil.Sub(now), fn)
	default:
		fn()
	}
}

// tempos are drawn from.
var tempos = []int{1, 10, 10, 30, 30}

// launch starts a process of a service; it leads as soon as it can.
func (s *Sim) launch(name string) {
	s.processes++
	p := &process{sim: s, name: name, number: s.processes, running: map[string]*coroutine{}, lanes: lane.NewQueue[func()](effectsMax), folding: map[string]bool{}, refused: map[string]bool{}, view: s.Cluster.View()}
	p.tempo = tempos[s.Rng.IntN(len(tempos))]
	p.stopLag = s.Millis(0, int(stage.StopLag/time.Millisecond)-1)
	wrong := s.wrong[name]
	if wrong == 0 && s.Faults.Skew > 0 {
		wrong = time.Duration(s.Rng.Int64N(int64(2*s.Faults.Skew))) - s.Faults.Skew
	}
	p.machine = s.newMachine(wrong)
	if p.mode = ledger.ModeActive; s.Happens(s.Faults.Shadowed) {
		p.mode = ledger.ModeShadow
		s.Clock.After(s.Millis(2000, 40_000), func() { s.activate(p) })
	}
	p.ctx, p.cancel = context.WithCancelCause(context.Background())
	p.ledger = ledger.New(s.Log.ID())
	p.world = s.restore()
	p.streamAt = p.world.Position().Sequence
	p.service = s.build(p)
	s.alive[name] = p
	s.all = append(s.all, p)
	p.foldLog(uint64(len(s.Entries)))
	p.beginStream()
	s.Trace("%s: started", p)
	p.machine.ask()
	p.keepClock()
	p.campaign()
}

// campaign leads if nobody does, else tries again.
func (p *process) campaign() {
	if p.machine.checked.Check() != nil {
		p.after(p.sim.Millis(100, 500), p.campaign)
		return
	}
	lead, ok := p.sim.elector.TryCampaign(store.Candidacy{Service: p.name, Identity: p.String()})
	if !ok {
		p.after(p.sim.Millis(100, 500), p.campaign)
		return
	}
	p.lead = lead
	p.stepping = true
	p.steps = newCoroutine(func() {
		for !p.awaitHead() {
		}
		for !p.announce() || !p.announceMode() {
		}
		p.stepping = false
		p.poke()
		for {
			p.steps.rest()
			next, err := p.service.Step(p.ctx)
			p.retire()
			p.stepping = false
			p.stepped(next, err)
		}
	})
	p.sim.resume(p.steps)
}

// leads reports that the process works under a lease, as far as it knows.
func (p *process) leads() bool { return p.lead != nil && p.ctx.Err() == nil && !p.dead }

// crash ends a process at once and starts a successor; its lease expires by itself. It reports whether there
// was a process to end.
func (s *Sim) crash(p *process, where string) bool {
	if p.dead {
		return false
	}
	s.Stats.Crashes++
	s.Trace("%s: crashes %s", p, where)
	s.end(p)
	return true
}

// activate ends a process in shadow mode; the successor may be active.
func (s *Sim) activate(p *process) {
	if p.mode == ledger.ModeShadow && !p.dead {
		s.Trace("user: ends shadow mode of %s", p)
		s.end(p)
	}
}

// end removes a process; the successor comes after a moment.
func (s *Sim) end(p *process) {
	p.dead = true
	p.cancel(context.Canceled)
	p.killAll()
	if p.lead != nil {
		s.Clock.After(s.Millis(0, int(leaseTime/time.Millisecond)), func() { _ = p.lead.Resign(context.Background()) })
	}
	if s.alive[p.name] == p {
		s.alive[p.name] = nil
		s.Clock.After(s.Millis(100, 4000), func() { s.launch(p.name) })
	}
}

// killAll ends what the process is doing.
func (p *process) killAll() {
	for _, key := range slices.Sorted(maps.Keys(p.running)) {
		p.running[key].kill()
	}
	if p.steps != nil && !p.steps.ended {
		p.steps.kill()
	}
}

// freeze stops a process for so long that its lease ends; a successor takes over before it goes on,
// unknowing.
func (s *Sim) freeze(p *process, d time.Duration) {
	if p.dead || p.lead == nil || !p.leaseEnd.IsZero() {
		return
	}
	s.Stats.Freezes++
	s.Trace("%s: freezes for %s", p, d)
	now := s.Clock.Now()
	p.frozenUntil, p.leaseEnd = now.Add(d), now.Add(leaseTime)
	s.Clock.After(leaseTime, func() {
		_ = p.lead.Resign(context.Background())
		if s.alive[p.name] == p {
			s.alive[p.name] = nil
			s.launch(p.name)
		}
	})
	p.after(d+s.Millis(0, 400), func() { p.depose() })
}

// depose ends the term: effects are cancelled, and the process ends.
func (p *process) depose() {
	p.sim.Trace("%s: deposed", p)
	p.callOff(store.ErrFenced)
	p.after(p.sim.Millis(500, 1000), func() { p.sim.end(p) })
}

// callOff cancels everything that runs under the term.
func (p *process) callOff(cause error) {
	p.cancel(cause)
	for _, key := range slices.Sorted(maps.Keys(p.running)) {
		if c := p.running[key]; c != nil {
			p.sim.wake(c, c.pause)
		}
	}
	if p.steps != nil {
		p.sim.wake(p.steps, p.steps.pause)
	}
}

// poke makes the service step soon.
func (p *process) poke() {
	switch {
	case !p.leads():
	case p.stepping:
		p.dirty = true
	case !p.due:
		p.due = true
		wait := p.sim.Millis(2*p.tempo, 40*p.tempo)
		if held := p.heldBack.Sub(p.sim.Clock.Now()); held > wait {
			wait = held
		}
		p.after(wait, p.step)
	}
}

// step runs one step of the service in its coroutine.
func (p *process) step() {
	p.due, p.dirty = false, false
	if !p.leads() || p.standsDown {
		return
	}
	p.sim.Stats.Steps++
	p.stepping = true
	p.sim.resume(p.steps)
}

// stepped sets the next step as the loop of a real process does.
func (p *process) stepped(next time.Duration, err error) {
	p.unready = errors.Is(err, service.ErrNotReady)
	switch {
	case err == nil:
		p.retry = 0
	case p.unready:
		next = notReadyRetry
		p.sim.Trace("%s: %v", p, err)
	default:
		p.retry = min(max(2*p.retry, retryFirst), retryMax)
		p.heldBack = p.sim.Clock.Now().Add(p.retry)
		next = p.retry
		p.sim.Trace("%s: step failed: %v", p, err)
	}
	p.timer++
	if timer := p.timer; next > 0 {
		p.after(next, func() {
			if p.timer == timer {
				p.poke()
			}
		})
	}
	if p.dirty {
		p.after(0, p.poke)
	}
}

// veryLate is how many of a thousand late reads are half a minute late.
const veryLate = 50

// changed makes the process notice a source soon; late is the probability that soon is seconds away. It reads
// from the given target, once that is reachable; read says whether there is reason for a step.
func (p *process) changed(source string, from target, late int, read func() (poke bool)) {
	if p.folding[source] || p.dead {
		return
	}
	p.folding[source] = true
	wait := p.sim.Millis(1, 25)
	if p.sim.Happens(late) {
		wait = p.sim.Millis(500, 6000)
		if p.sim.Happens(veryLate) {
			wait += 30 * time.Second
		}
		p.readsUntil = planner.Latest(p.readsUntil, p.sim.Clock.Now().Add(wait))
	}
	if away := p.sim.away[from].Sub(p.sim.Clock.Now()); away > 0 {
		wait += away
	}
	p.after(wait, func() {
		p.folding[source] = false
		if read() {
			p.poke()
		}
	})
}

// foldLog folds the records up to a sequence.
func (p *process) foldLog(seq uint64) {
	for p.ledger.Seq() < min(seq, uint64(len(p.sim.Entries))) {
		e := p.sim.Entries[p.ledger.Seq()]
		if p.sim.cfg.Wrap.Entry != nil {
			e = p.sim.cfg.Wrap.Entry(p.name, e)
		}
		if err := p.ledger.Apply(e); err != nil {
			p.sim.Violate("the log can be folded", "%s: %v", p, err)
			return
		}
	}
}

// foldStream folds all messages that are stored. It reports whether a service should be stepped: in most runs
// not for a heartbeat alone, which changes nothing for a service whose Snapshot was valid before.
func (p *process) foldStream() (poke bool) {
	s := p.sim
	poke = p.unready || s.eager
	if at := p.world.Position(); at.Incarnation != s.Incarnation {
		p.world, p.streamAt = world.New(), 0
		p.world.SetIncarnation(s.Incarnation)
	}
	for ; p.streamAt < uint64(len(s.Messages)); p.streamAt++ {
		o := s.Messages[p.streamAt]
		if s.cfg.Wrap.Observation != nil {
			o = s.cfg.Wrap.Observation(p.name, o)
		}
		p.world.Apply(p.streamAt+1, o)
		poke = poke || o.Op != events.OpHeartbeat
	}
	return poke
}

// beginStream folds what came after the checkpoint, at once or only after seconds.
func (p *process) beginStream() {
	if !p.sim.Happens(p.sim.Faults.StaleStart) {
		p.foldStream()
		return
	}
	const source = "stream"
	p.folding[source] = true
	wait := p.sim.Millis(500, 6000)
	p.readsUntil = p.sim.Clock.Now().Add(wait)
	p.after(wait, func() {
		p.folding[source] = false
		p.foldStream()
		p.poke()
	})
}

// restore returns the World of the newest checkpoint, or an empty one.
func (s *Sim) restore() *world.World {
	w := world.New()
	state, err := s.Stream.State(context.Background())
	if err == nil {
		var restored *world.World
		restored, _, err = events.LatestCheckpoint(context.Background(), s.Stream.Blobs(), state, state.Last, world.ReadCheckpoint, func(_ events.Checkpoint, err error) {
			s.Violate("checkpoints can be read", "%v", err)
		})
		if err == nil {
			w = restored
		}
	}
	w.SetIncarnation(s.Incarnation)
	return w
}
