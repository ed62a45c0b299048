package garbage

import (
	"context"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/rs/zerolog"

	"millwright/planner/ledger"
	"millwright/services/internal/service"
)

// alarmQuiet is how long there must be no reason for an alarm before the next one counts as another.
const alarmQuiet = 10 * time.Minute

// Alarms call for a person: each is counted, logged and recorded once, however often it is raised and
// whatever its numbers are, until it has been quiet for alarmQuiet; nothing else happens.
type Alarms struct {
	host    service.Host
	logger  zerolog.Logger
	counted *prometheus.CounterVec
	on      alarms
}

// NewAlarms returns alarms none of which is raised. registerer may be nil.
func NewAlarms(host service.Host, logger zerolog.Logger, registerer prometheus.Registerer) *Alarms {
	return &Alarms{host: host, logger: logger, counted: newAlarmCounter(registerer)}
}

// Raise raises an alarm. Reasons are a closed set.
func (a *Alarms) Raise(ctx context.Context, reason, message string) {
	if !a.on.begins(reason, a.host.Now()) {
		return
	}
	a.counted.WithLabelValues(reason).Inc()
	a.logger.Error().Str("reason", reason).Msg(message)
	_, err := a.host.Outcome(ctx, service.Outcome{Kind: ledger.KindAlarmRaised, Payload: &ledger.AlarmRaised{Reason: reason, Message: message}})
	if err != nil {
		a.on.forget(reason)
	}
}

// alarms are those that are not over, by reason, each with when there was last reason for it. Reasons are a
// closed set.
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
