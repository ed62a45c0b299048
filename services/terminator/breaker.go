package terminator

import (
	"context"
	"fmt"
	"maps"
	"sync"
	"time"

	"millwright/planner"
	"millwright/planner/ledger"
	"millwright/services/internal/service"
)

const (
	// forcedWindow is the time within which deadlines force at most max(forcedFloor, forcedPercent) of the
	// nodes.
	forcedWindow  = time.Minute
	forcedFloor   = 5
	forcedPercent = 10
	// alarmQuiet is how long nothing must have been held back for the next alarm to be a new one.
	alarmQuiet = 10 * time.Minute
)

// breaker paces what drains do because of their deadlines alone (DESIGN §2): if a clock is wrong in spite of
// all checks, or somebody deletes a great many nodes, the pods of only a few nodes a minute are deleted
// before their time, and an alarm is raised. It never stops them for good.
type breaker struct {
	mu sync.Mutex
	// began is when a node was first forced; it remains allowed. held are those held back since the last
	// alarm was checked.
	began map[string]time.Time
	held  map[string]bool
	// nodes, now and certain are of the last Snapshot.
	nodes        int
	now, certain time.Time
	// alarmed is when nodes were last held back.
	alarmed time.Time
}

func newBreaker() *breaker { return &breaker{began: map[string]time.Time{}, held: map[string]bool{}} }

// begin takes in a Snapshot.
func (b *breaker) begin(snap *planner.Snapshot) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.nodes, b.now, b.certain = len(snap.StateNodes()), snap.Now, snap.Certain()
}

// allows reports that a node's deadline counts now.
func (b *breaker) allows(node string) bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	if _, began := b.began[node]; began {
		return true
	}
	recent := 0
	for _, at := range b.began {
		if b.now.Sub(at).Abs() < forcedWindow { // one to come is of a clock that was ahead
			recent++
		}
	}
	if recent >= max(forcedFloor, b.nodes*forcedPercent/100) {
		b.held[node] = true
		return false
	}
	b.began[node] = b.now
	return true
}

// certainly is a time not later than the clock and the as-of of the last Snapshot.
func (b *breaker) certainly(now time.Time) time.Time {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.certain.Before(now) && !b.certain.IsZero() {
		return b.certain
	}
	return now
}

// forget drops nodes that are gone, once they no longer count.
func (b *breaker) forget(present map[string]bool) {
	b.mu.Lock()
	defer b.mu.Unlock()
	maps.DeleteFunc(b.began, func(node string, at time.Time) bool { return !present[node] && b.now.Sub(at).Abs() >= forcedWindow })
}

// heldNow returns how many nodes are held back, and whether that is new.
func (b *breaker) heldNow(now time.Time) (n int, fresh bool) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if n = len(b.held); n > 0 {
		fresh = b.alarmed.IsZero() || now.Sub(b.alarmed).Abs() > alarmQuiet
		b.held, b.alarmed = map[string]bool{}, now
	}
	return n, fresh
}

// alarm reports nodes whose deadlines have to wait.
func (s *Service) alarm(ctx context.Context) {
	n, fresh := s.breaker.heldNow(s.host.Now())
	if !fresh {
		return
	}
	message := fmt.Sprintf("the deadlines of %d more nodes have come: at most %d or %d %% of all are forced within %s", n, forcedFloor, forcedPercent, forcedWindow)
	s.metrics.alarms.WithLabelValues(deadlinePaced).Inc()
	s.logger.Error().Str("reason", deadlinePaced).Msg(message)
	_, err := s.host.Outcome(ctx, service.Outcome{Kind: ledger.KindAlarmRaised, Payload: &ledger.AlarmRaised{Reason: deadlinePaced, Message: message}})
	if err != nil {
		s.logger.Warn().Err(err).Msg("alarm not recorded")
	}
}
