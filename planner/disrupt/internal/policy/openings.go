package policy

import (
	"time"

	"github.com/robfig/cron/v3"
)

// next is the first time after t at which a window opens; zero if there is none.
//
// A schedule means what clocks in its zone show. A time that they leave out is the moment at which they go
// forward, and one that comes twice is the first of the two: on every day that the schedule names the window
// opens, and once. A schedule that names every hour is by the hours that pass instead.
//
// Example. "30 2 * * *" of Europe/Berlin is 03:00 on 29 March 2026, for 02:30 does not come; and on 25
// October the 02:30 at 00:30 UTC, not that at 01:30 UTC.
func (w *window) next(t time.Time) time.Time {
	if !w.byClock || everyHour(w.schedule) {
		return w.schedule.Next(t.In(w.zone)).UTC()
	}
	for clock := w.schedule.Next(clockAt(t.In(w.zone))); !clock.IsZero(); clock = w.schedule.Next(clock) {
		if at := firstAt(clock, w.zone); at.After(t) {
			return at
		}
	}
	return time.Time{}
}

// everyHour reports that a schedule names all hours of its days.
func everyHour(s cron.Schedule) bool {
	const all = 1<<24 - 1
	spec, ok := s.(*cron.SpecSchedule)
	return ok && spec.Hour&all == all
}

// clockAt is what clocks show at a time, written as a time in UTC.
func clockAt(t time.Time) time.Time {
	_, offset := t.Zone()
	return t.UTC().Add(time.Duration(offset) * time.Second)
}

// firstAt is the first time at which clocks of a zone show this, as from clockAt; if they leave it out, the
// time at which they do so.
func firstAt(clock time.Time, zone *time.Location) time.Time {
	const offsetMost = 26 * time.Hour // no zone is as far from UTC
	for t := clock.Add(-offsetMost).In(zone); ; {
		begins, ends := t.ZoneBounds()
		_, offset := t.Zone()
		at := clock.Add(-time.Duration(offset) * time.Second)
		switch {
		case at.Before(begins):
			return begins.UTC()
		case ends.IsZero() || at.Before(ends):
			return at
		}
		t = ends
	}
}
