package ledger

import (
	"math"
	"slices"
	"time"

	"millwright/planner/version"
)

// reservation holds what records say about a capacity reservation and EC2's own count of free instances may
// not reflect yet (reference: ec2 §2.5): one less for each of our launches, one more when such an instance is
// gone, none when EC2 says that it is full.
type reservation struct {
	// Changes by record; those older than reservationMemory are forgotten.
	Changes []reservationChange `json:"changes,omitempty"`
	// Full is when EC2 last refused a launch into it.
	Full time.Time `json:"full,omitzero"`
}

type reservationChange struct {
	At time.Time `json:"at"`
	By int64     `json:"by"`
}

// reservationMemory is longer than the interval at which EC2 is asked for its count, which is a minute while
// it answers.
const reservationMemory = 10 * time.Minute

func (l *state) reservation(id string) reservation {
	r, _ := l.reservations.Get(id)
	return r
}

// fullMemory is how long a reservation is remembered as full: longer than an old count of EC2 can stay in a
// World that is planned on.
const fullMemory = 24 * time.Hour

// forgetReservations forgets those of which nothing recent is known.
func (l *Ledger) forgetReservations(at time.Time) {
	for _, id := range version.Keys(&l.reservations) {
		if r := l.reservation(id).recent(at); len(r.Changes) == 0 && at.Sub(r.Full) > fullMemory {
			l.reservations.Delete(l.owner, id)
		}
	}
}

func (l *Ledger) changeReservation(id string, at time.Time, by int64) {
	l.forgetReservations(at)
	r := l.reservation(id).recent(at)
	r.Changes = append(r.Changes, reservationChange{at.UTC(), by})
	l.reservations.Set(l.owner, id, r)
}

func (r reservation) full(at time.Time) reservation {
	r = r.recent(at)
	if at.After(r.Full) {
		r.Full = at.UTC()
	}
	return r
}

// recent is a copy without what is too old at a time.
func (r reservation) recent(at time.Time) reservation {
	r.Changes = slices.DeleteFunc(slices.Clone(r.Changes), func(c reservationChange) bool { return at.Sub(c.At) > reservationMemory })
	return r
}

// ReservationFree returns how many instances of a capacity reservation are free, given that EC2 counted free
// of them at a time: what records say since then is added. math.MaxInt64 means unlimited. Never below 0.
//
// apart is how far the clock of who asked EC2 may be ahead of the records' times. A launch or a refusal that
// was recorded less than that before the count may have come after it, and is taken for later. If it was not,
// one too few is free until EC2 is asked again, which costs less than launching into a full reservation:
// another instance is taken meanwhile.
func (l *state) ReservationFree(id string, free int64, at time.Time, apart time.Duration) int64 {
	r := l.reservation(id)
	if !r.Full.IsZero() && !r.Full.Before(at.Add(-apart)) {
		free, at, apart = 0, r.Full, 0
	}
	if free == math.MaxInt64 {
		return free
	}
	for _, c := range r.Changes {
		if c.At.After(at) || c.By < 0 && c.At.After(at.Add(-apart)) {
			free += c.By
		}
	}
	return max(0, free)
}
