// Package failing counts the replacements of a NodePool that failed in a row.
package failing

import "time"

// Count of the commands in a row whose replacements of a NodePool failed, and until when it is left alone.
type Count struct {
	Failures int       `json:"failures"`
	Until    time.Time `json:"until"`
}

// A NodePool whose replacement failed is left alone for first, doubled with each failure in a row up to most.
const (
	first = time.Minute
	most  = 10 * time.Minute
	// memory is how long failures count after the last wait was over; the NodePool may be gone.
	memory = 24 * time.Hour
)

// Again is the count after one more failure. A failure of a command that was started before the last one
// ended says nothing new.
func (c Count) Again(started, now time.Time) Count {
	if c.Failures > 0 && started.Before(c.Until) {
		return c
	}
	wait := first
	for range min(c.Failures, 10) {
		wait = min(2*wait, most)
	}
	return Count{Failures: c.Failures + 1, Until: now.UTC().Add(wait)}
}

// Forgotten reports that the failures are so long ago that they do not count any more.
func (c Count) Forgotten(now time.Time) bool { return now.After(c.Until.Add(memory)) }
