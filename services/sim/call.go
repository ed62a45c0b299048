package sim

import (
	"context"
	"errors"
	"time"

	"millwright/store"
)

// errNoAnswer: the call may or may not have been carried out.
var errNoAnswer = errors.New("no answer")

// target is the server that is called.
type target int

const (
	toKube target = iota
	toEC2
	toLog
	// nobody is never away.
	nobody
)

// fate of one call.
type fate struct {
	// out is how long it takes to arrive, back how long the answer takes.
	out, back                time.Duration
	refused, arrives, answer bool
	// late is by how much the call arrives after the caller stopped waiting for the answer.
	late                    time.Duration
	crashBefore, crashAfter bool
}

// fateOf draws the fate of a call.
func (s *Sim) fateOf(to target) fate {
	f := fate{arrives: true, answer: true}
	x := &s.Faults
	switch to {
	case toKube:
		f.out, f.back = s.Millis(1, 12), s.Millis(1, 12)
		f.refused = s.Happens(x.KubeRefused)
		s.spoil(&f, x.KubeSlow, x.KubeLost, x.KubeUnanswered)
	case toEC2:
		f.out, f.back = s.Millis(20, 300), s.Millis(20, 900)
		f.refused = s.Happens(x.EC2Throttled)
		s.spoil(&f, x.EC2Slow, x.EC2Lost, x.EC2Unanswered)
	case toLog:
		f.out, f.back = s.Millis(1, 6), s.Millis(1, 6)
		s.spoil(&f, 0, x.AppendLost, x.AppendUnanswered)
		if s.Happens(x.AppendSlow) {
			f.answer, f.late = false, s.Millis(10, 8000)
		}
	}
	if s.isAway(to) {
		f.arrives, f.answer = false, false
	}
	f.crashBefore, f.crashAfter = s.Happens(x.CrashBefore), s.Happens(x.CrashAfter)
	return f
}

// isAway reports that nobody can reach the target now.
func (s *Sim) isAway(to target) bool { return s.Clock.Now().Before(s.away[to]) }

// goAway makes a target unreachable for a while. Leases cannot be renewed without the log: after their time
// nobody creates anything, and when the log is back some find that they no longer lead.
func (s *Sim) goAway(to target, d time.Duration) {
	if s.isAway(to) {
		return
	}
	s.Trace("%s is away for %s", []string{"the API server", "EC2", "the log"}[to], d)
	now := s.Clock.Now()
	s.away[to] = now.Add(d)
	if to != toLog {
		return
	}
	s.logAwaySince = now
	for _, name := range services {
		p := s.alive[name]
		if p == nil || p.lead == nil || !p.leaseEnd.IsZero() {
			continue
		}
		p.leaseEnd = now.Add(leaseTime)
		lost := d > leaseTime && s.Happens(500)
		p.after(d, func() {
			p.leaseEnd = time.Time{}
			if lost {
				p.depose()
			}
		})
	}
}

func (s *Sim) spoil(f *fate, slow, lost, unanswered int) {
	if s.Happens(slow) {
		f.out, f.back = s.Millis(10, 20_000), s.Millis(10, 5000)
	}
	if s.Happens(lost) {
		f.arrives, f.answer = false, false
	}
	if s.Happens(unanswered) {
		f.answer = false
	}
}

// call makes do happen when the call arrives, and returns when the answer does. It returns errNoAnswer, the
// context's error, or refused if the call was refused. do runs at most once, possibly after the caller has
// given up.
func (p *process) call(ctx context.Context, to target, name string, refused error, do func()) error {
	s, c := p.sim, p.sim.running
	if err := p.usable(ctx, c); err != nil {
		return err
	}
	s.Stats.Calls++
	s.judge.CheckStopped(p, name)
	s.judge.CheckShadow(p, name)
	f := s.fateOf(to)
	answered := false
	asked := p.machine.checked.Monotonic()
	var date time.Time // of the answer; zero if nobody was reached
	s.Clock.After(f.out+f.late, func() {
		if f.crashBefore && s.crash(p, "before "+name) && s.Happens(500) {
			return // else it was on its way already
		}
		if f.refused || !f.arrives {
			return
		}
		date = s.Clock.Now()
		s.acting = p
		do()
		s.acting = nil
		s.Trace("%s: %s", p, name)
		if f.crashAfter {
			s.crash(p, "after "+name)
		}
	})
	pause := c.pause
	p.after(f.out+f.back, func() {
		answered = true
		if f.answer && !date.IsZero() {
			p.machine.hearTime(to, asked, date)
		}
		s.wake(c, pause)
	})
	c.park()
	switch {
	case !answered:
		return context.Cause(ctx)
	case f.refused && refused != nil:
		return refused
	case !f.answer || f.refused:
		return errNoAnswer
	}
	return nil
}

// pause parks the coroutine that runs for a while, or until its term ends.
func (p *process) pause(d time.Duration) {
	c := p.sim.running
	pause := c.pause
	p.after(d, func() { p.sim.wake(c, pause) })
	c.park()
}

// usable reports why no call can be sent.
func (p *process) usable(ctx context.Context, c *coroutine) error {
	if p.dead {
		return errNoAnswer
	}
	if c.fenced && !p.leaseEnd.IsZero() && !p.sim.Clock.Now().Before(p.leaseEnd.Add(-leaseMargin)) {
		c.cancel(store.ErrFenced)
	}
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	return nil
}
