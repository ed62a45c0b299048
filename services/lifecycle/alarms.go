package lifecycle

import (
	"sync"
	"time"
)

// alarms are those that are not over, by reason, each with when there was last reason for it. Reasons are a closed set.
type alarms struct {
	mu   sync.Mutex
	last map[string]time.Time
}

// begins takes note of a reason for an alarm, and reports whether the alarm is a new one.
func (a *alarms) begins(reason string, now time.Time) bool {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.last == nil {
		a.last = map[string]time.Time{}
	}
	last, on := a.last[reason]
	a.last[reason] = now
	return !on || now.Sub(last) > alarmQuiet
}

// forget has the next reason begin the alarm: it was not recorded.
func (a *alarms) forget(reason string) {
	a.mu.Lock()
	defer a.mu.Unlock()
	delete(a.last, reason)
}
