package ledger

import "time"

// ClockTolerance is how far clocks may be apart: a process whose clock is further off stands down, and what is further ahead than this
// moves nobody's Now (DESIGN §2, "Time has witnesses").
const ClockTolerance = 5 * time.Second

// passTime takes in the time of the newest record. Times rise, but for one case: a record of a clock that was far ahead. The next one
// shows it, and what the Ledger remembers as later than that counts as of then, so that it neither waits nor marks for days. An operator's
// clock has no witnesses, and says nothing.
func (l *Ledger) passTime(e Entry) {
	if e.Time.IsZero() || e.Kind == KindControlChanged {
		return
	}
	at := e.Time.UTC()
	if last := l.s.LastTime; last.Sub(at) > ClockTolerance {
		l.disbelieve(at)
	}
	l.s.LastTime = at
}

// disbelieve brings every time that is remembered and later than it could be back to now.
func (l *Ledger) disbelieve(now time.Time) {
	for name, c := range l.s.Claims {
		if c.OpenedAt.After(now) || c.RegisteredAt.After(now) {
			known := *c
			known.OpenedAt, known.RegisteredAt = earlier(c.OpenedAt, now), earlier(c.RegisteredAt, now)
			l.s.Claims[name] = &known
		}
	}
	for id, c := range l.s.Commands {
		known := *c
		known.At = earlier(c.At, now)
		l.s.Commands[id] = &known
	}
	for node, d := range l.s.Drains {
		known := *d
		known.At = earlier(d.At, now)
		l.s.Drains[node] = &known
	}
	for key, u := range l.s.Offerings {
		known := *u
		known.Until = earlier(u.Until, now.Add(l.s.Backoff.Max))
		l.s.Offerings[key] = &known
	}
	for uid, v := range l.s.Verdicts {
		l.s.Verdicts[uid] = v.asOf(now)
	}
	for _, r := range l.s.Reservations {
		r.Full = earlier(r.Full, now)
		for i := range r.Changes {
			r.Changes[i].At = earlier(r.Changes[i].At, now)
		}
	}
	l.s.ControlAt = earlier(l.s.ControlAt, now)
	l.stale()
}

// asOf is the verdict as it can be at most at a time.
func (v *Verdict) asOf(now time.Time) *Verdict {
	known := *v
	known.Since = earlier(v.Since, now)
	known.Excluded = nil
	for _, x := range v.Excluded {
		known.Excluded = append(known.Excluded, ExcludedNode{x.Node, earlier(x.Until, now.Add(ExclusionTime))})
	}
	return &known
}

func earlier(a, b time.Time) time.Time {
	if b.Before(a) {
		return b
	}
	return a
}
